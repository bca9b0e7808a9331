/* SPDX-License-Identifier: MIT */
/*
 * widgets.js - draws what a running service tells. Behind plot.js.
 *
 *     samples (live.h) --> History: the last minute, as points with rates --> widgets
 *
 * A widget has an `element`, to be put somewhere once, and show(), which draws it anew.
 */

/* ---- numbers as text ---- */

const rateText = rate => rate === 0 ? '0' : rate < 10 ? rate.toFixed(1) : countText(rate);
const bytesText = bytes => bytes < 1024 ? `${bytes} B`
    : bytes < 1 << 20 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / (1 << 20)).toFixed(1)} MiB`;
/* 99.97 % is not 100 %. */
const shareText = share => share === 1 || share === 0 ? `${100 * share} %`
    : `${(Math.floor(1e4 * share) / 100).toFixed(share > 0.99 ? 2 : 1)} %`;
/* The bound of a bucket; of the last one, which has none, Infinity. */
const boundText = (us, bounds) => us === null ? '–'
    : us === Infinity ? `> ${boundText(bounds[bounds.length - 1], bounds)}`
    : us < 1000 ? `${us} µs` : us < 1e6 ? `${us / 1000} ms` : `${us / 1e6} s`;
const spanText = ms => {
    const s = Math.floor(ms / 1000), min = Math.floor(s / 60), h = Math.floor(min / 60);
    return ms < 1000 ? `${Math.round(ms)} ms` : s < 60 ? `${(ms / 1000).toFixed(1)} s`
        : min < 60 ? `${min} min ${s % 60} s` : h < 48 ? `${h} h ${min % 60} min` : `${Math.floor(h / 24)} d ${h % 24} h`;
};

/* ---- what samples mean ---- */

/* Where answers come from, in the order in which they are stacked; `look` is their class in view.css. */
const sources = [
    { look: 'near', title: 'near cache', of: ['near'] },
    { look: 'cache', title: 'Redis', of: ['cache', 'absent', 'missed'] },
    { look: 'stale-answer', title: 'stale, at once', of: ['stale'] },
    { look: 'flight', title: 'waited for a load here', of: ['flight'] },
    { look: 'fleet', title: 'waited for another process', of: ['fleet'] },
    { look: 'load', title: 'loaded by themselves', of: ['load'] },
    { look: 'failed', title: 'failed or refused', of: ['failed', 'failed_before', 'shed', 'timeout', 'cancelled', 'closing'] },
];
const answersOf = (sample, source) => source.of.reduce((sum, name) => sum + sample.answers[name], 0);
const answered = sample => sources.reduce((sum, source) => sum + answersOf(sample, source), 0);

/* The bound of the bucket that so many percent of what was counted in between are in, or below; null: nothing was. */
const percentile = (before, after, bounds, percent) => {
    const counts = after.count.map((count, i) => count - before.count[i]);
    const total = counts.reduce((sum, count) => sum + count, 0);
    let seen = 0;
    for (let i = 0; total > 0 && i < counts.length; i++) {
        seen += counts[i];
        if (seen >= Math.ceil(total * percent / 100)) return bounds[i] ?? Infinity;
    }
    return null;
};

const sumOf = list => list.reduce((sum, one) => sum + one, 0);

/* ---- the last minute ---- */

class History {
    constructor(bounds, seconds = 60) {
        Object.assign(this, { bounds, seconds, samples: [], points: [], marks: [] });
    }
    get last() { return this.samples[this.samples.length - 1]; }

    /* A vertical line with a word at it. */
    mark(at_ms, text) { this.marks.push({ at: at_ms, text }); }

    add(sample) {
        const before = this.last;
        const goesOn = before !== undefined && sample.up_ms > before.up_ms && answered(sample) >= answered(before);
        if (!goesOn) this.samples = [];
        this.samples.push(sample);
        if (goesOn) this.points.push(this.between(before, sample));
        const from = sample.at_ms - 1000 * this.seconds;
        while (this.points.length > 0 && this.points[0].at < from) this.points.shift();
        while (this.samples[0].at_ms < from) this.samples.shift();
        this.marks = this.marks.filter(mark => mark.at >= from);
        return goesOn;
    }

    between(before, after) {
        const seconds = Math.max(after.up_ms - before.up_ms, 1) / 1000;
        return {
            at: after.at_ms, seconds, sample: after,
            rates: sources.map(source => (answersOf(after, source) - answersOf(before, source)) / seconds),
            loads: (after.loads.started - before.loads.started) / seconds,
            failed: (after.loads.failed - before.loads.failed) / seconds,
            p50: percentile(before.get_us, after.get_us, this.bounds, 50),
            p99: percentile(before.get_us, after.get_us, this.bounds, 99),
            statuses: Object.fromEntries(Object.entries(after.http.statuses).map(([name, count]) =>
                [name, (count - before.http.statuses[name]) / seconds])),
            commands: (after.redis.commands - before.redis.commands) / seconds,
        };
    }

    /* The last so many seconds as one point; null: there are not two samples yet. */
    recent(seconds) {
        const last = this.last, first = this.samples.find(one => one.at_ms >= last.at_ms - 1000 * seconds - 500);
        return first === undefined || first === last ? null : this.between(first, last);
    }
}

/* ---- plots ---- */

class Moving extends Plot {
    /*
     * series    [{ look, title, hint, of: point => number or null }]; hint: what it is, for who points at its name
     * isStacked     areas on each other; otherwise lines
     * isLog         from `least` to `most`, one tic a decade
     * text          of a value
     */
    constructor(title, about, { series, isStacked = false, isLog = false, least = 1, most = 1, text = rateText }) {
        super(title);
        Object.assign(this, { series, isStacked, isLog, least, most, text, at: null, history: null });
        this.cells = series.map(() => html('span', { class: 'value' }, '–'));
        this.when = html('li', { class: 'when' });
        this.legend = html('ul', { class: 'legend' }, series.map((one, i) => html('li', one.hint === undefined ? {} : { title: one.hint },
            html('span', { class: `swatch ${one.look}` }), html('span', { class: 'what' }, one.title), this.cells[i])),
            this.when);
        this.element = html('figure', { class: 'panel' },
            html('h2', {}, title), about === null ? null : html('p', { class: 'soft' }, about), this.box, this.legend);
        new ResizeObserver(() => this.draw()).observe(this.box);
    }

    hover(at) { if (this.history !== null) this.point(at, false); }
    key(event) {
        const points = this.history?.points ?? [], here = this.chosen() ?? points[points.length - 1];
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], next = points[points.indexOf(here) + (step ?? 0)];
        if (event.key === 'Escape') this.point(null, false);
        else if (step !== undefined && next !== undefined) this.point(next.at, true);
        else return false;
        return true;
    }

    /* By the keyboard the values are said, too. */
    point(at, isSaid) {
        this.at = at;
        if (isSaid) this.legend.setAttribute('aria-live', 'polite');
        else this.legend.removeAttribute('aria-live');
        this.draw();
    }

    /* The point that is shown in the legend; null: the last one. */
    chosen() {
        if (this.at === null) return null;
        const distance = point => Math.abs(point.at - this.at);
        return this.history.points.reduce((best, one) => best === null || distance(one) < distance(best) ? one : best, null);
    }

    show(history) {
        this.history = history;
        this.draw();
    }

    /* ---- drawing ---- */

    draw() {
        const history = this.history;
        if (history === null || history.last === undefined) return;
        this.width = Math.max(this.box.clientWidth, 200);
        this.height = this.width < wideFrom ? 150 : 190;
        Object.assign(this, { left: this.isLog ? 56 : 46, right: this.width - 8, top: 8, bottom: this.height - 20 });
        this.shown = { from: history.last.at_ms - 1000 * history.seconds, to: history.last.at_ms };
        this.svg.setAttribute('viewBox', `0 0 ${this.width} ${this.height}`);
        const [highest, tics] = this.isLog ? this.logTics() : this.evenTics();
        this.axis = { from: this.isLog ? this.least : 0, to: highest, isLog: this.isLog };
        this.svg.replaceChildren(...this.grid(tics), ...this.runs().flatMap(run => this.isStacked ? this.areas(run) : this.curves(run)),
            path('axis', `M${this.left} ${this.bottom}H${this.right}`), ...this.marks(),
            ...this.chosen() === null ? [] : [this.hair(this.chosen().at)]);
        this.tell();
    }

    valuesOf(point) { return this.series.map(one => one.of(point)); }

    evenTics() {
        const heights = this.history.points.map(point => this.valuesOf(point).reduce((sum, value) =>
            this.isStacked ? sum + value : Math.max(sum, value), 0));
        const step = stepFor(Math.max(...heights, 1) / 4), highest = step * Math.ceil(Math.max(...heights, 1) / step);
        return [highest, Array.from({ length: Math.round(highest / step) + 1 }, (_, i) =>
            [i * step, step < 1 ? (i * step).toFixed(1) : countText(i * step)])];
    }
    logTics() {
        const tics = [];
        for (let at = this.least; at <= this.most; at *= 10) tics.push([at, this.text(at)]);
        return [this.most, tics];
    }

    grid(tics) {
        const seconds = this.history.seconds, count = this.width < wideFrom ? 2 : 4;
        const times = Array.from({ length: count + 1 }, (_, i) => seconds * i / count);
        return [
            ...tics.flatMap(([value, text]) => [path('grid', `M${this.left} ${this.y(value)}H${this.right}`),
                svg('text', { x: this.left - 6, y: this.y(value) + 4, 'text-anchor': 'end' }, text)]),
            ...times.map((second, i) => svg('text', {
                x: this.x(this.shown.to - 1000 * second), y: this.height - 4,
                'text-anchor': i === 0 ? 'end' : i === count ? 'start' : 'middle' }, second === 0 ? 'now' : `−${second} s`)),
        ];
    }

    /* Points that follow each other: where samples are missing there is a gap. */
    runs() {
        const runs = [];
        this.history.points.forEach((point, i, points) => {
            const before = points[i - 1];
            if (before === undefined || point.at - before.at > 2500 * Math.max(point.seconds, before.seconds)) runs.push([]);
            runs[runs.length - 1].push(point);
        });
        return runs;
    }

    areas(run) {
        const low = run.map(() => 0);
        return this.series.map((one, s) => {
            const edge = i => `${this.x(run[i].at).toFixed(1)} ${this.y(low[i]).toFixed(1)}`;
            const below = run.map((_, i) => edge(i)).reverse();
            run.forEach((point, i) => { low[i] += this.valuesOf(point)[s]; });
            const above = run.map((_, i) => edge(i));
            return path(`area ${one.look}`, `M${[...above, ...below].join('L')}Z`);
        });
    }
    /* There is none where nothing was: a point alone is a dot. */
    curves(run) {
        return this.series.map(one => {
            const place = point => `${this.x(point.at).toFixed(1)} ${this.y(one.of(point)).toFixed(1)}`;
            const goesOn = i => i > 0 && one.of(run[i - 1]) !== null;
            return path(`curve ${one.look}`, run.map((point, i) =>
                one.of(point) === null ? '' : goesOn(i) ? `L${place(point)}` : `M${place(point)}h0.1`).join(''));
        });
    }

    marks() {
        return this.history.marks.flatMap(({ at, text }) => [path('mark', `M${this.x(at)} ${this.top}V${this.bottom}`),
            svg('text', { x: this.x(at) - 4, y: this.top + 10, 'text-anchor': 'end' }, text)]);
    }
    tell() {
        const { points, last } = this.history, chosen = this.chosen(), point = chosen ?? points[points.length - 1];
        this.when.textContent = chosen === null ? 'now' : `${((last.at_ms - chosen.at) / 1000).toFixed(0)} s ago`;
        this.when.classList.toggle('chosen', chosen !== null);
        if (point === undefined) return;
        this.valuesOf(point).forEach((value, i) => { this.cells[i].textContent = value === null ? '–' : this.text(value); });
    }
}

/* Each is made once. */
const answersPlot = () => new Moving('Answers per second', 'By where they came from.', {
    isStacked: true, series: sources.map((source, i) => ({ ...source, of: point => point.rates[i] })) });
const loadsPlot = () => new Moving('Loads per second', 'Each is one query in the database.', {
    series: [{ look: 'load', title: 'loads', of: point => point.loads }, { look: 'failed', title: 'failed', of: point => point.failed }] });
const waitersPlot = () => new Moving('Waiting', 'Requests that wait for a load, and flights: keys that they wait for.', {
    text: countText, series: [{ look: 'waiters', title: 'requests', of: point => point.sample.waiters },
        { look: 'flight', title: 'flights', hint: 'A flight: one load, or one wait for it, of one key in one process', of: point => point.sample.flights }] });
const latencyPlot = bounds => new Moving('Time to an answer', 'What half of the answers, and 99 % of them, took at most.', {
    isLog: true, least: bounds[0] / 2.5, most: 2 * bounds[bounds.length - 1], text: us => boundText(us, bounds),
    series: [{ look: 'p50', title: 'half within', of: point => point.p50 }, { look: 'p99', title: '99 % within', of: point => point.p99 }] });

/* ---- the rest ---- */

/* Big numbers: [[what, history => [value, unit, note]]]. */
class Tiles {
    constructor(tiles) {
        this.tiles = tiles.map(([what, of]) => ({ of, value: html('span', { class: 'value' }), note: html('span', { class: 'note' }), what }));
        this.element = html('div', { class: 'tiles' }, this.tiles.map(({ what, value, note }) =>
            html('div', { class: 'tile' }, html('span', { class: 'what' }, what), value, note)));
    }
    show(history) {
        for (const { of, value, note } of this.tiles) {
            const [number, unit, text] = of(history);
            value.replaceChildren(number, unit === '' ? '' : html('small', {}, unit));
            note.textContent = text;
        }
    }
}

/* [{ key, value, note, share, look }], of which so many are shown; share: of the longest bar. */
class Rows {
    constructor(title, about, empty, most) {
        Object.assign(this, { empty, most, list: html('ul', { class: 'rows' }) });
        this.element = html('section', { class: 'panel' }, html('h2', {}, title),
            about === null ? null : html('p', { class: 'soft' }, about), this.list);
    }
    show(rows) {
        const more = rows.length === 0 ? this.empty : rows.length > this.most ? `and ${rows.length - this.most} more` : null;
        this.list.replaceChildren(...rows.slice(0, this.most).map(one => this.row(one)),
            ...more === null ? [] : [html('li', { class: 'more' }, more)]);
    }
    row({ key, value, note = null, share = null, look = '' }) {
        const bar = share === null ? null : html('span', { class: `bar ${look}`, 'aria-hidden': 'true' });
        bar?.style.setProperty('--share', `${(100 * share).toFixed(1)}%`);
        return html('li', {}, bar, html('span', { class: 'key' }, key),
            note === null ? null : html('span', { class: 'note' }, note), html('span', { class: 'value' }, value));
    }
}

const runningRows = sample => sample.running.map(({ key, load, for_ms, waiters }) => ({
    key, value: spanText(for_ms), note: `load ${load}, ${waiters > 0 ? `${countText(waiters)} waited when it began` : 'in the background'}` }));
const hotRows = sample => sample.hot.map(({ key, saved }) => ({
    key, value: countText(saved), share: saved / sample.hot[0].saved, look: 'cache' }));

/* [[what, value, hint]]; rows whose value is null are left out. */
class Facts {
    constructor(title) {
        this.list = html('dl', { class: 'facts' });
        this.element = html('section', { class: 'panel' }, html('h2', {}, title), this.list);
    }
    show(facts) {
        this.list.replaceChildren(...facts.filter(([, value]) => value !== null).flatMap(([what, value, hint = '']) =>
            [html('dt', hint === '' ? {} : { title: hint }, what), html('dd', {}, value)]));
    }
}

/* Redis, its messages, the breaker, the database: [{ kind: 'good', 'warn' or 'bad', text }]. */
const statesOf = sample => {
    const redis = (what, state) => ({ kind: state === 'up' ? 'good' : 'bad', text: `${state === 'up' ? '✓' : '✗'} ${what} ${state}` });
    return [
        redis('Redis', sample.redis.state), redis('Wake-ups', sample.redis.wake),
        sample.redis.breaker ? { kind: 'bad', text: '✗ Breaker open' } : { kind: 'good', text: '✓ Breaker closed' },
        sample.database.ready ? { kind: 'good', text: '✓ Database ready' } : { kind: 'bad', text: '✗ Database down' },
    ];
};
/* An element changes only when its text does, so that nothing is said twice. */
const showStates = (list, states) => {
    while (list.children.length > states.length) list.lastChild.remove();
    while (list.children.length < states.length) list.append(html('li', {}));
    states.forEach(({ kind, text }, i) => {
        const item = list.children[i];
        if (item.textContent !== text) item.textContent = text;
        item.className = kind;
    });
};
