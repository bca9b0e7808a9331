/* SPDX-License-Identifier: MIT */
/*
 * page_plots.js - the plots of a page, behind app/view/plot.js; page.js comes behind it.
 *
 *     Span     an axis that several plots share: how long, where the pointer is
 *     Drawn    one plot over a span; its legend, which shows the values at the pointer
 *         Latency    one result over time, with its expiries, faults and notes
 *         Burst      one result from the instants of its bursts on, one laid over the other
 *         Queries    all results in one
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

const evenTics = (to, most, textOf) => {
    const step = stepFor(to / most), tics = [];
    for (let i = 0; i * step <= to * 1.000001; i++) tics.push([i * step, textOf(i * step)]);
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
    constructor(until) { Object.assign(this, { until, from: 0, to: until, at: null, plots: [] }); }
    point(at) {
        this.at = at === null ? null : clamp(at, 0, this.until);
        for (const plot of this.plots) plot.point();
    }
}

/* ---- a plot ---- */

const laneHeight = 20;
const plots = [];

class Drawn extends Plot {
    /*
     * A kind of plot has, beside items [{ swatch, what, isShort, isName }] of its legend:
     *     range()         of the vertical axis: { from, to, isLog, tics: [[value, text]] }
     *     shapes()        what is drawn, over the grid
     *     until           where its values end
     *     nearest(at)     the instant at which there are values; text(at) says it
     *     step            from one of them to the next
     *     values(at)      one for each item: { text, y, look }; y null: no dot
     *     total()         the texts of the whole run, while nobody points
     */
    constructor(span, label, unit, items) {
        super(label);
        Object.assign(this, { span, shown: span, unit, items, until: span.until, lanes: 0 });
        span.plots.push(this);
        plots.push(this);
        this.cells = items.map(item => html('span', { class: `value${item.isShort ? ' short' : ''}` }));
        this.where = html('span', { class: 'value long' });
        const what = ({ isName, what }) =>
            html('span', isName ? { class: 'what name', title: what } : { class: 'what' }, what);
        this.legend = html('ul', { class: 'values', 'aria-live': 'polite' },
            html('li', {}, html('span', { class: 'what' }, 'at'), this.where),
            items.map((item, i) => html('li', {}, item.swatch, what(item), this.cells[i])));
        this.box.addEventListener('pointerdown', event => this.hover(this.under(event)));
    }

    parts() { return [this.legend, this.box]; }

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
        const { left: x, right, height } = this, inside = { x, y: 0, width: right - x, height };
        inside.viewBox = `${x} 0 ${inside.width} ${height}`;
        this.pointer = svg('g', {});
        this.svg.replaceChildren();
        build(this.svg, { viewBox: `0 0 ${width} ${height}` },
            [this.frame(), svg('svg', inside, this.shapes()), this.laneNumbers(), this.pointer]);
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
    tics(most) { return evenTics(this.span.until, most, ms => timeTic(ms, this.span.until)); }

    /* ---- the values at the pointer ---- */

    point() {
        const isThere = this.span.at !== null && this.span.at <= this.until;
        const at = isThere ? this.nearest(this.span.at) : null, values = isThere ? this.values(at) : [];
        const texts = isThere ? values.map(value => value.text) : this.total();
        this.where.textContent = isThere ? this.text(at) : 'all of it';
        this.cells.forEach((cell, i) => { cell.textContent = texts[i]; });
        this.pointer?.replaceChildren(...!isThere ? [] : [
            this.hair(at),
            ...values.filter(value => value.y !== null).map(value =>
                svg('circle', { class: `dot ${value.look}`, cx: this.x(at), cy: this.y(value.y), r: 4 }))]);
    }

    hover(at) { this.span.point(at); }

    key({ key, shiftKey }) {
        const { span } = this, now = this.nearest(span.at ?? span.until / 2), far = this.step * (shiftKey ? 10 : 1);
        const to = { ArrowLeft: now - far, ArrowRight: now + far, Home: 0, End: span.until, Escape: null };
        if (key in to) span.point(to[key]);
        return key in to;
    }
}

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
        return this.events.map((mark, i) => mark.at_ms > this.span.until ? [] : svg('text', {
            class: 'number', x: this.x(mark.at_ms) + 5, y: this.middleOf(this.laneOf[i]) + 0.35 * this.em }, String(i + 1)));
    }

    shapes() {
        const expiries = this.expiries();
        return [
            expiries.length > expiriesMost ? [] : expiries.map(mark => this.upright('expiry', mark.at_ms)),
            this.events.flatMap((mark, i) => this.eventShapes(mark, this.middleOf(this.laneOf[i]))),
            this.dataShapes(),
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
            this.crosses(),
        ].flat(2);
    }
    crosses() {
        const y = this.bottom - 8, half = this.result.slice_ms / 2;
        const d = this.result.slices.map((slice, i) =>
            slice.failed > 0 ? `M${this.x(i * this.step + half) - 3} ${y - 3}l6 6m0-6l-6 6` : '').join('');
        return d === '' ? [] : [path('cross', d)];
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
        return { from: 0, to, isLog: false, tics: evenTics(to, 6, count).filter(([value]) => Number.isInteger(value)) };
    }
    expiries() { return []; }
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

/* The dotted lines: as many as there were expiries, which is what a guard would have made of them. */
class Queries extends Drawn {
    /* All are counted in bins of one length, of whole slices: 1, 2, 5, 10, ... ms, fewer than 80 of them. */
    constructor(span) {
        const isKnown = results.some(result => result.expiries > 0);
        super(span, 'Queries over time, all results', '', [
            ...results.map((_, i) => ({ swatch: stroke(lookOf(i), 'dashed thick'), what: nameOf(i), isName: true })),
            ...isKnown ? [{ swatch: stroke('', 'query'), what: 'needed', isShort: true }] : []]);
        const fits = ms => span.until / ms < 80 &&
            results.every(result => isBurst(result) || result.slices.length === 0 || ms % result.slice_ms === 0);
        let ms = 1;
        while (!fits(ms) && ms < 2 ** 32) ms = stepFor(ms * 1.5);
        Object.assign(this, { isKnown, step: ms, unit: `queries in each ${timeTic(ms, ms)}` });
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
        const zero = 1 / 3, to = Math.max(...this.bins.flat(), 2) * 1.6;
        const tics = logTics(zero, to, 2.6, count).filter(([at]) => at >= 1);
        return { from: zero, to, isLog: true, tics: [[zero, '0'], ...tics] };
    }
    line(kind, bins) {
        const places = bins.flatMap((number, i) => [this.place(i * this.step, number), this.place((i + 1) * this.step, number)]);
        return places.length === 0 ? [] : [lineOf(`line ${kind}`, places)];
    }
    /* Thinner lines on top: two that run together can be told apart. */
    shapes() {
        return [
            this.bins.map((bins, i) => this.line(`dashed ${lookOf(i)}`, bins)
                .map(line => build(line, { 'stroke-width': 3 - 1.2 * i / results.length }, []))),
            this.needed.map(bins => this.line('query', bins))];
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
