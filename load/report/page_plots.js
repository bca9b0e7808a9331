/* SPDX-License-Identifier: MIT */
/*
 * page_plots.js - the plots of a page, behind app/view/plot.js; page.js comes behind it.
 *
 *     Span     an axis that several plots share: how long, what of it is shown, where the pointer is
 *     Drawn    one plot over a span; its legend, which shows the values at the pointer; what a reader does to it
 *         Latency, Became   one result over time, with its expiries, faults and notes
 *         Burst             one result from the instants of its bursts on, one laid over the other
 *         Queries, Curve    all results in one
 *
 * What --json writes is in the element "report", the rows of the terminal's table in "sheet".
 */

const read = id => JSON.parse(document.getElementById(id).textContent);
const report = read('report'), sheet = read('sheet'), results = report.results;

const lineOf = (kind, points) => path(kind, `M${points.join('L')}`);

/* ---- numbers and names ---- */

const count = number => grouped(String(number));
const latency = us => `${grouped((us / 1e3).toFixed(us < 10000 ? 2 : us < 100000 ? 1 : 0))} ms`;
const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);

/* "3", of several "1–3". */
const rangeOf = numbers => numbers.length === 0 ? '–' : [...new Set([Math.min(...numbers), Math.max(...numbers)])].map(count).join('–');

const nameOf = index => results[index].name || `result ${index + 1}`;
/* Alone it is not in the colour of a stampede. */
const lookOf = index => `s${(results.length === 1 ? 1 : index) % 8} d${(index + Math.floor(index / 8)) % 4}`;
const swatch = (look, shape) =>
    svg('svg', { class: `swatch ${look}`, viewBox: '0 0 30 10', 'aria-hidden': 'true' }, shape);
const stroke = (look, kind) => swatch(look, path(`line ${kind}`, 'M0 6H30'));

/* ---- tics ---- */

const evenTics = (from, to, most, textOf) => {
    const step = stepFor((to - from) / most), tics = [];
    for (let i = Math.ceil(from / step - 1e-6); i * step <= to * 1.000001; i++)
        tics.push([i * step, textOf(i * step)]);
    return tics;
};

/* Decades, or 1-2-5 where there are few of them. */
const logTics = (from, to, decades, textOf) => {
    const tics = [], fine = Math.log10(to / from) <= decades;
    for (let power = Math.floor(Math.log10(from)); 10 ** power <= to; power++)
        for (const step of fine ? [1, 2, 5] : [1]) {
            const at = Number(`${step}e${power}`);
            if (at >= from * 0.999 && at <= to * 1.001) tics.push([at, textOf(at)]);
        }
    return tics;
};

const latencyTic = us => us < 1000 ? `${us} µs` : us < 1e6 ? `${us / 1e3} ms` : `${us / 1e6} s`;
/* An axis that is shorter than 2 s is in ms. */
const timeTic = (ms, until) => until < 2000 ? `${+ms.toFixed(3)} ms` : `${+(ms / 1e3).toFixed(6)} s`;
/* With as many decimals as steps of `step` ms need. */
const timeText = (ms, until, step) =>
    until < 2000 ? `${ms} ms` : `${(ms / 1e3).toFixed(clamp(3 - Math.floor(Math.log10(step)), 0, 3))} s`;
const rangeText = (middle, until, step) =>
    `${timeText(middle - step / 2, until, step).replace(/ m?s$/, '')}–${timeText(middle + step / 2, until, step)}`;

/* ---- what plots share ---- */

class Span {
    constructor(until, least) {
        Object.assign(this, { until, least, from: 0, to: until, at: null, plots: [] });
    }
    get isWhole() { return this.from <= 0 && this.to >= this.until; }

    show(from, to) {
        const length = clamp(to - from, Math.min(this.least, this.until), this.until);
        this.from = clamp((from + to - length) / 2, 0, this.until - length);
        this.to = this.from + length;
        for (const plot of this.plots) plot.draw();
    }
    point(at) {
        this.at = at === null ? null : clamp(at, 0, this.until);
        for (const plot of this.plots) plot.point();
    }
    walk(at) {
        const inside = clamp(at, 0, this.until);
        const beyond = Math.min(inside - this.from, 0) + Math.max(inside - this.to, 0);
        this.at = inside;
        if (beyond !== 0) this.show(this.from + beyond, this.to + beyond);
        this.point(inside);
    }
}

/* ---- a plot ---- */

const laneHeight = 20;
const plots = [];
let pressed = null; /* the one that has a button on it */

class Drawn extends Plot {
    /*
     * A kind of plot has, beside items [{ swatch, what, isShort, isName }] of its legend:
     *     range()         of the vertical axis: { from, to, isLog, tics: [[value, text]] }
     *     tics(most)      of the other
     *     shapes()        what is drawn, over the grid
     *     until           where its values end
     *     nearest(at)     the instant at which there are values; text(at) says it
     *     step            from one of them to the next
     *     values(at)      one for each item: { text, y, look }; y null: no dot
     *     total()         the texts of the whole run, while nobody points
     */
    constructor(span, label, unit, items) {
        super(label);
        Object.assign(this, { span, shown: span, unit, items, until: span.until, lanes: 0, chosen: null });
        span.plots.push(this);
        plots.push(this);
        this.whole = html('button', { type: 'button', hidden: '' }, 'Whole span');
        this.cells = items.map(item => html('span', { class: `value${item.isShort ? ' short' : ''}` }));
        this.where = html('span', { class: 'value long' });
        const what = ({ isName, what }) =>
            html('span', isName ? { class: 'what name', title: what } : { class: 'what' }, what);
        this.legend = html('ul', { class: 'values', 'aria-live': 'polite' },
            html('li', {}, html('span', { class: 'what' }, 'at'), this.where),
            items.map((item, i) => html('li', {}, item.swatch, what(item), this.cells[i])));
        this.whole.addEventListener('click', () => { span.show(0, span.until); this.box.focus({ preventScroll: true }); });
        this.box.addEventListener('dblclick', () => span.show(0, span.until));
        this.box.addEventListener('pointerdown', event => this.press(event));
    }

    parts() { return [this.whole, this.legend, this.box]; }

    /* ---- drawing ---- */

    place(at, value) { return `${+this.x(at).toFixed(2)} ${+this.y(value).toFixed(2)}`; }

    measure(width) {
        const isWide = width > wideFrom, em = isWide ? 13 : 12;
        Object.assign(this, { width, isWide, em, left: 4.8 * em, right: width - 2.2 * em, top: 1.9 * em });
        this.words = (isWide ? 340 : 250) - 2 * em; /* where those of the horizontal axis begin without lanes */
        this.bottom = this.words;
        if (this.lanes > 0) this.words += 10 + this.lanes * laneHeight;
        this.height = this.words + 2 * em;
    }

    draw(width = this.box.clientWidth) {
        if (width === 0) return;
        this.measure(width);
        this.axis = this.range();
        this.whole.hidden = this.span.isWhole;
        build(this.svg, { viewBox: `0 0 ${width} ${this.height}` }, []);
        const inside = { x: this.left, y: 0, width: this.right - this.left, height: this.height };
        inside.viewBox = `${this.left} 0 ${inside.width} ${inside.height}`;
        this.pointer = svg('g', {});
        this.selection = svg('g', {});
        this.svg.replaceChildren(
            ...this.frame(), svg('svg', inside, this.shapes()), ...this.laneNumbers(), this.selection, this.pointer);
        this.point();
    }

    frame() {
        const { left, right, top, bottom, words, em } = this;
        const text = (x, y, anchor, words) => svg('text', { x, y, 'text-anchor': anchor }, words);
        return [
            text(left - 0.7 * em, em, 'start', this.unit),
            this.axis.tics.map(([value, words]) => [
                path('grid', `M${left} ${this.y(value)}H${right}`),
                text(left - 0.7 * em, this.y(value) + 0.35 * em, 'end', words)]),
            path('axis', `M${left} ${top}V${bottom}H${right}`),
            words > bottom ? path('axis', `M${left} ${words}H${right}`) : [],
            this.tics(this.isWide ? 10 : 4).map(([at, words]) => [
                path('axis', `M${this.x(at)} ${this.words}v5`),
                text(this.x(at), this.words + 1.5 * em, 'middle', words)]),
        ].flat(2);
    }
    laneNumbers() { return []; }

    /* ---- the values at the pointer ---- */

    point() {
        const isThere = this.span.at !== null && this.span.at <= this.until;
        const at = isThere ? this.nearest(this.span.at) : null, values = isThere ? this.values(at) : [];
        const texts = isThere ? values.map(value => value.text) : this.total();
        this.where.textContent = isThere ? this.text(at) : 'all of it';
        this.cells.forEach((cell, i) => { cell.textContent = texts[i]; });
        const isSeen = isThere && at >= this.span.from && at <= this.span.to;
        this.pointer?.replaceChildren(...!isSeen ? [] : [
            this.hair(at),
            ...values.filter(value => value.y !== null).map(value =>
                svg('circle', { class: `dot ${value.look}`, cx: this.x(at), cy: this.y(value.y), r: 4 }))]);
    }

    /* ---- what a reader does: point, drag, press keys ---- */

    hover(at) { if (pressed === null) this.span.point(at); }

    press(event) {
        if (event.button !== 0 || pressed !== null) return;
        pressed = this;
        this.pressedAt = this.pixels(event);
        this.span.point(this.under(event));
    }
    drag(event) {
        this.span.point(this.under(event));
        if (event.pointerType !== 'touch') this.choose(this.pixels(event));
    }
    choose(until) {
        const inside = [this.pressedAt, until].map(x => clamp(x, this.left, this.right));
        const [x, width] = [Math.min(...inside), Math.abs(inside[1] - inside[0])];
        this.chosen = width > 6 ? [x, x + width] : null;
        this.selection.replaceChildren(...this.chosen === null ? [] : [
            svg('rect', { class: 'chosen', x, y: this.top, width, height: this.bottom - this.top })]);
    }
    lift(isDone) {
        const { chosen } = this, { from, to } = this.span, scale = (to - from) / (this.right - this.left);
        pressed = this.chosen = null;
        this.selection.replaceChildren();
        if (chosen !== null && isDone)
            this.span.show(from + (chosen[0] - this.left) * scale, from + (chosen[1] - this.left) * scale);
    }

    key({ key, shiftKey }) {
        const { span } = this, now = this.nearest(span.at ?? (span.from + span.to) / 2);
        const far = this.step * (shiftKey ? 10 : 1);
        const actions = {
            ArrowLeft: () => span.walk(now - far), ArrowRight: () => span.walk(now + far),
            Home: () => span.walk(0), End: () => span.walk(span.until),
            Escape: () => span.isWhole ? span.point(null) : span.show(0, span.until),
        };
        actions[key]?.();
        return key in actions;
    }
}

addEventListener('pointermove', event => pressed?.drag(event));
addEventListener('pointerup', () => pressed?.lift(true));
addEventListener('pointercancel', () => pressed?.lift(false));

/* ---- one result over time ---- */

const eventsMost = 40, expiriesMost = 80; /* more would be a grey wall */

const eventsOf = result => result.marks.filter(mark => mark.kind !== 'expiry');
const isBurst = result => result.rounds.length > 0;

/* Without what is empty at the end. */
const usedMs = (result, isUsed) => (result.slices.findLastIndex(isUsed) + 1) * result.slice_ms;
/* What is done to a service after its last request is shown, too. */
const endOf = result => Math.max(1, usedMs(result, slice => slice.due > 0),
    ...eventsOf(result).map(mark => Math.max(mark.at_ms, mark.until_ms)));

class Timeline extends Drawn {
    constructor(span, index, label, unit, items) {
        super(span, `${label} over time, ${nameOf(index)}, with expiries and faults`, unit, items);
        this.result = results[index];
        this.look = lookOf(index);
        this.events = eventsOf(this.result).slice(0, eventsMost);
        this.step = this.result.slice_ms;
        this.until = this.result.slices.length * this.step;
    }

    tics(most) { return evenTics(this.span.from, this.span.to, most, ms => timeTic(ms, this.span.to)); }
    sliceAt(at) { return clamp(Math.floor(at / this.step), 0, this.result.slices.length - 1); }
    nearest(at) { return (this.sliceAt(at) + 0.5) * this.step; }
    text(at) { return rangeText(at, this.span.until, this.step); }

    measure(width) {
        this.laneOf = this.assignLanes(this.span.until / (width > wideFrom ? 24 : 10));
        this.lanes = Math.max(0, ...this.laneOf.map(lane => lane + 1));
        super.measure(width);
    }
    /* No bar lies on another; an instant takes the room of its number. */
    assignLanes(leastMs) {
        const free = [];
        return this.events.map(mark => {
            let lane = free.findIndex(ms => ms <= mark.at_ms);
            lane = lane < 0 ? free.length : lane;
            free[lane] = Math.max(mark.at_ms, mark.until_ms) + leastMs;
            return lane;
        });
    }
    middleOf(lane) { return this.bottom + 10 + (lane + 0.5) * laneHeight; }
    laneNumbers() {
        return this.events.flatMap((mark, i) => {
            const at = Math.min(Math.max(mark.at_ms, this.span.from), Math.max(mark.at_ms, mark.until_ms));
            const isSeen = at >= this.span.from && at <= this.span.to;
            const y = this.middleOf(this.laneOf[i]) + 0.35 * this.em;
            return isSeen ? [svg('text', { class: 'number', x: this.x(at) + 5, y }, String(i + 1))] : [];
        });
    }

    shapes() {
        const expiries = this.expiries();
        return [
            expiries.length > expiriesMost ? [] : expiries.map(mark => this.upright('expiry', mark.at_ms)),
            this.events.flatMap((mark, i) => this.eventShapes(mark, this.middleOf(this.laneOf[i]))),
            this.dataShapes(),
            this.crosses(),
        ].flat();
    }
    expiries() { return this.result.marks.filter(mark => mark.kind === 'expiry'); }
    upright(kind, at) { return path(kind, `M${this.x(at)} ${this.top}V${this.bottom}`); }
    eventShapes(mark, middle) {
        const x = this.x(mark.at_ms), width = Math.max(this.x(mark.until_ms) - x, 0), isNote = mark.kind === 'note';
        const bar = { class: 'bar', x, width, y: middle - 7, height: 14 }, kind = `instant${isNote ? ' note' : ''}`;
        if (mark.until_ms <= mark.at_ms)
            return [this.upright(kind, mark.at_ms), path(`${kind} short`, `M${x} ${middle - 7}v14`)];
        const band = { class: 'fault', x, width, y: this.top, height: this.bottom - this.top };
        return [isNote ? this.upright(kind, mark.at_ms) : svg('rect', band), svg('rect', bar)];
    }
    crosses() {
        const y = this.bottom - 8, half = this.result.slice_ms / 2;
        const d = this.result.slices.map((slice, i) =>
            slice.failed > 0 ? `M${this.x(i * this.step + half) - 3} ${y - 3}l6 6m0-6l-6 6` : '').join('');
        return d === '' ? [] : [path('cross', d)];
    }
    line(kind, points) { /* a point alone is a dot of the line's width */
        const d = points.length === 1 ? `M${points[0]}h.01` : `M${points.join('L')}`;
        return points.length === 0 ? [] : [path(`line ${kind} ${this.look}`, d)];
    }
}

const crossSwatch = () => swatch('', path('cross', 'M11 2l8 8m0-8l-8 8'));

class Latency extends Timeline {
    constructor(span, index) {
        const look = lookOf(index), { has_loads } = results[index];
        super(span, index, 'Latency', 'latency', [
            { swatch: stroke(look, 'thick'), what: 'p50' }, { swatch: stroke(look, 'thin'), what: 'p99' },
            { swatch: swatch(look, svg('rect', { class: 'area', width: 30, height: 10 })), what: 'slowest' },
            { swatch: null, what: 'answered', isShort: true },
            { swatch: crossSwatch(), what: 'failed', isShort: true },
            ...has_loads ? [{ swatch: null, what: 'queries', isShort: true }] : []]);
        this.hasLoads = has_loads;
    }

    /* The same for all results, so that one can look from one to the next. */
    range() {
        const slices = results.filter(result => !isBurst(result)).flatMap(result => result.slices);
        const answered = slices.filter(slice => slice.answered > 0);
        const least = Math.min(...answered.map(slice => slice.p50_us));
        const most = Math.max(1, ...answered.map(slice => slice.max_us));
        const from = least > most ? 1 : Math.max(least, 1) / 1.6, to = Math.max(most, from * 4) * 1.6;
        return { from, to, isLog: true, tics: logTics(from, to, 2.2, latencyTic) };
    }

    /* Runs of slices for which there is such a value. */
    runs(hasValue) {
        const runs = [[]];
        this.result.slices.forEach((slice, i) => {
            if (hasValue(slice)) runs.at(-1).push([(i + 0.5) * this.step, slice]);
            else runs.push([]);
        });
        return runs.filter(run => run.length > 0);
    }

    /* Where answers are few, p99 is that of several slices, each of which has it. */
    dataShapes() {
        const all = this.runs(slice => slice.answered > 0), supported = this.runs(slice => slice.p99_slices > 0);
        const points = (run, of) => run.map(([at, slice]) => this.place(at, of(slice) + 1));
        const p50 = slice => slice.p50_us, p99 = slice => slice.p99_us, most = slice => slice.max_us;
        return [
            all.map(run => lineOf(`area ${this.look}`, [...points(run, most), ...points(run, p50).reverse()])),
            supported.map(run => this.line('thin', points(run, p99))),
            all.map(run => this.line('thick', points(run, p50))),
        ].flat(2);
    }

    total() {
        const { latency: all, slices, loads } = this.result, supported = Math.ceil(all.count * 0.99) < all.count;
        return [latency(all.p50_us), supported ? latency(all.p99_us) : 'too few', latency(all.max_us), count(all.count),
            count(sum(slices, slice => slice.failed)), count(loads)];
    }
    values(at) {
        const slice = this.result.slices[this.sliceAt(at)], { look } = this, isAnswered = slice.answered > 0;
        const dot = us => isAnswered ? { text: latency(us), y: us + 1, look } : { text: '–', y: null };
        const plain = number => ({ text: count(number), y: null });
        const wide = slice.p99_slices > 1 ? ` in ${timeTic(slice.p99_slices * this.step, this.span.until)}` : '';
        const p99 = slice.p99_slices > 0 ? { text: latency(slice.p99_us) + wide, y: slice.p99_us + 1, look }
            : { text: isAnswered ? 'too few' : '–', y: null };
        return [dot(slice.p50_us), p99, dot(slice.max_us), plain(slice.answered), plain(slice.failed),
            ...this.hasLoads ? [plain(slice.loads)] : []];
    }
}

/* The kinds of what became of requests, in the order in which they are stacked, and how they are called. */
const kinds = ['2xx', '3xx', '1xx', '6xx', '4xx', '5xx',
    'refused', 'unconnected', 'reset', 'timeout', 'rubbish', 'unsent', 'left', 'cut'];
const kindsOf = result => kinds.filter(kind => result.slices.some(slice => slice.became[kind] > 0));
const fillOf = kind => `fill ${kind[1] === 'x' ? `k${kind[0]}` : 'k0'}`;

/* Stacked: so many of the requests of each slice became this, so many that. */
class Became extends Timeline {
    constructor(span, index) {
        const here = kindsOf(results[index]);
        super(span, index, 'What became of the requests', '', here.map(kind => ({
            swatch: swatch('', svg('rect', { class: fillOf(kind), width: 30, height: 10 })), what: kind, isShort: true })));
        this.kinds = here;
        this.unit = `requests in each ${timeTic(this.step, this.step)}`;
    }
    range() {
        const to = Math.max(1, ...this.result.slices.map(slice => slice.due)) * 1.06;
        return { from: 0, to, isLog: false, tics: evenTics(0, to, 5, count).filter(([value]) => Number.isInteger(value)) };
    }
    crosses() { return []; }
    dataShapes() {
        const below = this.result.slices.map(() => 0);
        return this.kinds.map(kind => path(fillOf(kind), this.result.slices.map((slice, i) => {
            const from = below[i], number = slice.became[kind] ?? 0;
            below[i] += number;
            return number === 0 ? '' : `M${this.place(i * this.step, from)}L${this.place(i * this.step, below[i])}` +
                `L${this.place((i + 1) * this.step, below[i])}L${this.place((i + 1) * this.step, from)}Z`;
        }).join('')));
    }
    total() { return this.kinds.map(kind => count(sum(this.result.slices, slice => slice.became[kind] ?? 0))); }
    values(at) {
        const { became } = this.result.slices[this.sliceAt(at)];
        return this.kinds.map(kind => ({ text: count(became[kind] ?? 0), y: null }));
    }
}

/* ---- bursts ---- */

/* How many there were after so many ms: between two steps as many as lie between them. */
const stepsBy = (steps, ms) => {
    const us = ms * 1e3, next = steps.findIndex(step => step.us > us);
    if (next < 0) return steps.at(-1)?.count ?? 0;
    if (next === 0) return 0;
    const [a, b] = [steps[next - 1], steps[next]];
    return Math.floor(a.count + (b.count - a.count) * (us - a.us) / (b.us - a.us));
};
const lastMs = round => Math.max(0.1, ...[round.answers, round.failures, round.loads].map(steps => (steps.at(-1)?.us ?? 0) / 1e3));
/* Until when the last of them is over. */
const burstMs = result => Math.max(...result.rounds.map(lastMs)) * 1.03;

class Burst extends Timeline {
    constructor(span, index) {
        const result = results[index], { has_loads } = result, failed = result.rounds.some(round => round.failures.length > 0);
        super(span, index, 'Answers', 'requests', [
            { swatch: stroke(lookOf(index), 'thick'), what: 'answered' },
            ...failed ? [{ swatch: stroke('', 'failed'), what: 'failed' }] : [],
            ...has_loads ? [{ swatch: stroke('', 'query'), what: 'queries' }] : []]);
        this.counted = ['answers', ...failed ? ['failures'] : [], ...has_loads ? ['loads'] : []];
        this.until = span.until;
        this.step = stepFor(span.until / 400);
        /* An event of a round counts from its instant, too. */
        this.events = this.events.map(mark => {
            const begin = result.rounds.findLast(round => round.at_ms <= mark.at_ms)?.at_ms ?? 0;
            return { ...mark, at_ms: mark.at_ms - begin, until_ms: Math.max(0, mark.until_ms - begin) };
        });
    }
    range() {
        const most = result => Math.max(...result.rounds.map(round => Math.max(round.due, round.loads.at(-1)?.count ?? 0)));
        const to = most(this.result) * 1.06;
        return { from: 0, to, isLog: false, tics: evenTics(0, to, 6, count).filter(([value]) => Number.isInteger(value)) };
    }
    expiries() { return []; }
    crosses() { return []; }
    /* From nothing at the instant to as many as there were in the end. */
    curve(steps) {
        if (steps.length === 0) return [];
        const first = steps[0].us / 1e3;
        return [[0, 0], [first, 0], ...steps.map(step => [step.us / 1e3, step.count]), [this.until, steps.at(-1).count]]
            .map(([at, value]) => this.place(at, value));
    }
    dataShapes() {
        const { rounds } = this.result, isOne = rounds.length === 1;
        const loads = rounds.flatMap(round => round.loads).map(step => `M${this.x(step.us / 1e3)} ${this.bottom}v-9`);
        return [
            isOne ? [lineOf(`area ${this.look}`, [...this.curve(rounds[0].answers), this.place(this.until, 0)])]
                .filter(() => rounds[0].answers.length > 0) : [],
            rounds.map(round => this.line(isOne ? 'thick' : 'thin', this.curve(round.answers))),
            rounds.map(round => this.line('failed', this.curve(round.failures))),
            rounds.map(round => this.line('query', this.curve(round.loads))),
            loads.length > 0 ? [path('load', loads.join(''))] : [],
        ].flat(2);
    }
    nearest(at) { return clamp(Math.round(at / this.step) * this.step, 0, this.until); }
    text(at) { return timeTic(+at.toFixed(3), this.span.until); }
    total() { return this.values(this.until).map(value => value.text); }
    /* Of several rounds the least and the most. */
    values(at) {
        return this.counted.map(what => {
            const all = this.result.rounds.map(round => stepsBy(round[what], at));
            return { text: rangeOf(all), y: Math.max(...all), look: what === 'answers' ? this.look : what };
        });
    }
}

/* ---- all results in one plot ---- */

class Together extends Drawn {
    constructor(span, label, unit, more = []) {
        super(span, label, unit, [...results.map((_, i) =>
            ({ swatch: stroke(lookOf(i), 'dashed thick'), what: nameOf(i), isName: true })), ...more]);
    }
    /* Thinner lines on top: two that run together can be told apart. */
    shapes() {
        return results.flatMap((_, i) => {
            const points = this.points(i).map(([at, value]) => this.place(at, value));
            const line = lineOf(`line dashed ${lookOf(i)}`, points);
            return points.length === 0 ? [] : [build(line, { 'stroke-width': 3 - 1.2 * i / results.length }, [])];
        });
    }
}

/* The dotted lines: as many as there were expiries, which is what a guard would have made of them. */
class Queries extends Together {
    constructor(span) {
        const isKnown = results.some(result => result.expiries > 0);
        super(span, 'Queries over time, all results', '',
            isKnown ? [{ swatch: stroke('', 'query'), what: 'needed', isShort: true }] : []);
        this.isKnown = isKnown;
    }

    /* All are counted in bins of one length, of whole slices: 1, 2, 5, 10, ... ms, fewer than 80 of them in sight. */
    fillBins() {
        const fits = ms => results.every(result => isBurst(result) || result.slices.length === 0 || ms % result.slice_ms === 0) &&
            (this.span.to - this.span.from) / ms < 80;
        let ms = 1;
        while (!fits(ms) && ms < 2 ** 32) ms = stepFor(ms * 1.5);
        if (ms === this.step) return;
        this.step = ms;
        this.unit = `queries in each ${timeTic(ms, ms)}`;
        this.bins = results.map(result => this.binsOf(result, slice => slice.loads));
        this.needed = results.map(result => result.expiries > 0 ? this.binsOf(result, slice => slice.needed) : []);
    }
    binsOf(result, of) {
        const { slices, slice_ms } = result, each = this.step / slice_ms;
        return Array.from({ length: isBurst(result) ? 0 : Math.ceil(slices.length / each) },
            (_, bin) => sum(slices.slice(bin * each, (bin + 1) * each), of));
    }
    /* One query in a bin is the least there can be; what is called 0 lies below it. */
    range() {
        this.fillBins();
        const zero = 1 / 3, to = Math.max(...this.bins.flat(), 2) * 1.6;
        const tics = logTics(zero, to, 2.6, count).filter(([at]) => at >= 1);
        return { from: zero, to, isLog: true, tics: [[zero, '0'], ...tics] };
    }
    tics(most) { return evenTics(this.span.from, this.span.to, most, ms => timeTic(ms, this.span.to)); }
    steps(bins) { return bins.flatMap((number, i) => [[i * this.step, number], [(i + 1) * this.step, number]]); }
    points(index) { return this.steps(this.bins[index]); }
    shapes() {
        const places = bins => this.steps(bins).map(([at, value]) => this.place(at, value));
        return [...super.shapes(), ...this.needed.filter(bins => bins.length > 0).map(bins => lineOf('line query', places(bins)))];
    }

    nearest(at) {
        const most = Math.max(...this.bins.map(bins => bins.length)) - 1;
        return (clamp(Math.floor(at / this.step), 0, most) + 0.5) * this.step;
    }
    text(at) { return rangeText(at, this.span.until, this.step); }
    total() {
        return [...results.map(result => isBurst(result) ? '–' : count(result.loads)),
            rangeOf(results.filter(result => result.expiries > 0).map(result => result.expiries))];
    }
    values(at) {
        const bin = Math.floor(at / this.step), needed = this.needed.map(bins => bins[bin] ?? []).flat();
        return [...this.bins.map((bins, i) => {
            const loads = bins[bin];
            return loads === undefined ? { text: '–', y: null } : { text: count(loads), y: loads, look: lookOf(i) };
        }), ...!this.isKnown ? [] : [{ text: rangeOf(needed), y: null }]];
    }
}

/* Parts of all answers, -log10(1 - part): 90 % is 1, 99 % is 2. */
class Curve extends Together {
    constructor(span) {
        super(span, 'Distribution of latency on logarithmic scales, all results', 'latency');
        this.step = span.until / 100;
        /* The last point, the maximum, lies beyond all parts: a little further right than the one before it. */
        this.curves = results.map(result => result.curve.map(point => {
            const above = 1 - point.percent / 100, answers = Math.max(result.latency.count, 2);
            return [above > 0.5 / answers ? -Math.log10(above) : Math.log10(answers) + 0.25, point.us + 1];
        }));
    }
    range() {
        const all = results.map(result => result.latency).filter(latency => latency.count > 0);
        const from = Math.max(Math.min(...all.map(one => one.min_us)), 1) / 1.6;
        const to = Math.max(...all.map(one => one.max_us), from * 4) * 1.6;
        return { from, to, isLog: true, tics: logTics(from, to, 2.2, latencyTic) };
    }
    tics() {
        const { from, to } = this.span, fine = to - from < 1.8, tics = this.isWide || fine ? [[0, '0 %']] : [];
        for (let power = 0; power < 7; power++)
            for (const step of fine || power === 0 ? [5, 2, 1] : [1]) {
                const above = Number(`${step}e-${power + 1}`), at = -Math.log10(above);
                if ((fine || step !== 2) && at <= to) tics.push([at, `${+(100 - above * 100).toFixed(6)} %`]);
            }
        return tics.filter(([at]) => at >= from);
    }
    points(index) { return this.curves[index]; }
    nearest(at) { return at; }
    text(at) { return `${(100 - 100 * 10 ** -at).toFixed(clamp(Math.floor(at), 1, 6))} %`; }
    total() { return results.map(result => `to ${latency(result.latency.max_us)}`); }
    values(at) {
        return this.curves.map((curve, i) => {
            const point = curve.find(([end]) => end >= at - 1e-9);
            return point === undefined ? { text: '–', y: null }
                : { text: latency(point[1] - 1), y: point[1], look: lookOf(i) };
        });
    }
}
