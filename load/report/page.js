/* SPDX-License-Identifier: MIT */
/* page.js - the page around the plots of page_plots.js: what the terminal says, too, and the rest. */

/* ---- the head ---- */

const paragraphs = text => text.split(/\n\n+/).filter(one => one !== '').map(one => html('p', {}, one));
const soft = (...texts) => html('p', { class: 'soft' }, texts.join(''));
const pairs = list => list.map(([what, text]) => [html('dt', {}, what), html('dd', {}, text)]);
const facts = list => html('dl', { class: 'facts' }, pairs(list));

/* What several results have in common is said once: ["Asked", "off, local: ..."]. */
const shared = (what, textOf) => {
    const texts = [...new Set(results.map(textOf))].filter(text => text !== '');
    return texts.map(text => {
        const who = results.flatMap((result, i) => textOf(result) === text ? [nameOf(i)] : []);
        return [what, who.length === results.length ? text : `${who.join(', ')}: ${text}`];
    });
};

const verdict = () => {
    const checks = results.flatMap(result => result.checks), bad = checks.filter(check => !check.held).length;
    const [kind, text] = checks.length === 0 ? ['none', 'Nothing was asked to hold']
        : bad > 0 ? ['bad', `✗ ${bad} of ${checks.length} checks did not hold`]
        : ['good', checks.length === 1 ? '✓ What had to hold did' : '✓ Everything that had to hold did'];
    return html('p', { class: `verdict ${kind}` }, text);
};

const head = () => [
    html('h1', {}, report.title),
    ...paragraphs(report.about),
    verdict(),
    facts([...shared('Asked', result => result.what),
        ...[['When', results[0]?.when ?? ''], ['Machine', report.machine]].filter(([, text]) => text !== '')]),
];

/* ---- at a glance ---- */

/* A row of the sheet, below a heading if it is a part of something. */
const row = (label, heading) => {
    const from = heading === undefined ? 0 : sheet.rows.findIndex(one => one.label === heading);
    return from < 0 ? undefined : sheet.rows.slice(from).find(one => one.label === label);
};
const cell = (index, label, heading) => row(label, heading)?.cells[index] ?? '-';

const card = (result, index) => {
    const isUnknown = result.has_loads && result.loads > 0 && result.expiries === 0;
    const [loads, p99] = [cell(index, 'loads per expiry'), cell(index, 'p99', 'latency, ms')];
    const numbers = [
        ['queries', cell(index, 'queries')], ['requests', cell(index, 'requests')],
        ...[['p50', 'p50'], ['p99', 'p99'], ['slowest', 'max']].map(([what, label]) => {
            const text = cell(index, label, 'latency, ms');
            return [what, text === '-' ? '-' : `${text} ms`];
        }),
        ['failed', count(sheet.failed[index])], ['stale answers', cell(index, 'stale answers after a write')],
    ].filter(([, text]) => text !== '-');
    const big = loads !== '-' ? [loads, 'loads per expiry']
        : p99 !== '-' ? [`${p99} ms`, '99 % were answered within'] : null;
    return html('article', { class: `card ${lookOf(index)}` },
        html('h3', {}, nameOf(index)),
        result.is_partial ? html('p', { class: 'bad' }, 'interrupted: what there is until then') : null,
        big === null ? null : html('p', { class: 'big' }, `${big[0]} `, html('small', {}, big[1])),
        isUnknown ? soft('loads per expiry: not known', result.caveat && `: ${result.caveat}`) : null,
        html('dl', {}, numbers.flatMap(([what, text]) => [
            html('dt', {}, what), html('dd', what === 'failed' && text !== '0' ? { class: 'bad' } : {}, text)])));
};

/* ---- tables ---- */

const header = (text, kind) => html('th', { scope: 'col', ...kind === undefined ? {} : { class: kind } }, text);
const table = (kind, headers, rows) =>
    html('table', { class: kind }, html('thead', {}, html('tr', {}, headers)), html('tbody', {}, rows));

const checks = () => {
    const rows = results.flatMap((result, i) => result.checks.map(check => html('tr', {},
        results.length > 1 ? html('td', {}, nameOf(i)) : null,
        html('th', { scope: 'row' }, check.text), html('td', {}, check.measured),
        html('td', { class: `held ${check.held ? 'good' : 'bad'}` }, check.held ? '✓ held' : '✗ not held'))));
    return rows.length === 0 ? [] : [html('h2', {}, 'What had to hold'), table('checks', [
        results.length > 1 ? header('Result', 'who') : null,
        header('Check'), header('Measured', 'measured'), header('Verdict', 'judged')], rows)];
};

const figures = () => {
    const tables = [];
    for (let first = 0; first < results.length; first += sheet.columns) {
        const some = results.slice(first, first + sheet.columns);
        tables.push(table('figures', [header('Figure'), ...some.map((_, i) => header(nameOf(first + i)))],
            sheet.rows.map(({ label, weight, cells }) => cells[0] === ''
                ? html('tr', { class: 'heading' }, html('th', { scope: 'row', colspan: some.length + 1 }, label))
                : html('tr', { class: weight }, html('th', { scope: 'row' }, label),
                    some.map((_, i) => html('td', {}, cells[first + i].replace(/^-$/, '–')))))));
    }
    const isMissing = sheet.rows.some(({ cells }) => cells.includes('-'));
    return sheet.rows.length === 0 ? [] : [html('h2', {}, 'All figures'), ...tables,
        isMissing ? soft('–: not measured, or a percentile that so few answers cannot support') : null];
};

const hot = () => results.every(result => result.loaded_keys <= 1) ? [] : [html('h2', {}, 'Most loaded keys'),
    facts(results.map((result, i) =>
        [nameOf(i), result.hot.map(({ key, loads }) => `${key || 'without a key'} × ${loads}`).join(', ')]))];

/* ---- plots ---- */

const figure = (plot, caption, ...after) => html('figure', {}, html('figcaption', {}, caption), plot.parts(), after);

const eventList = result => {
    const events = eventsOf(result), seconds = ms => `${(ms / 1e3).toFixed(2)} s`;
    const more = Math.max(events.length - eventsMost, 0) + result.marks_left_out;
    const when = mark => mark.until_ms > mark.at_ms ? [mark.at_ms, mark.until_ms] : [mark.at_ms];
    const items = events.slice(0, eventsMost).map(mark =>
        html('li', {}, html('span', { class: 'when' }, when(mark).map(seconds).join(' – ')), mark.text));
    return [
        items.length === 0 ? null : html('ol', { class: 'events' }, items),
        more === 0 ? null : soft(`and ${more} more that are not drawn`),
    ];
};

/* No more can be seen of it than so many slices at once. */
const leastSeen = some => 4 * Math.max(1, ...some.map(result => result.slice_ms));

const timelines = () => {
    const spanOf = bursts => {
        const same = results.filter(result => result.slices.length > 0 && isBurst(result) === bursts);
        return new Span(Math.max(1, ...same.map(endOf)), leastSeen(same));
    };
    const [bursts, rates] = [spanOf(true), spanOf(false)];
    const all = results.map((result, i) => {
        if (result.slices.length === 0) return null;
        const plot = isBurst(result) ? new Waiting(bursts, i) : new Latency(rates, i);
        const words = isBurst(result) ? 'requests that still wait; those of a burst are due at one instant'
            : 'latency of the requests due at each instant';
        const isKnown = result.has_loads && (result.expiries > 0 || result.loads === 0);
        const expiries = isKnown
            ? `; ${count(result.expiries)} ${result.expiries === 1 ? 'expiry' : 'expiries'}` : '';
        const name = html('h3', {}, stroke(lookOf(i), 'dashed thick'), nameOf(i));
        return figure(plot, [name, words + expiries], eventList(result));
    });
    const has = rates.plots.length > 0;
    return all.every(one => one === null) ? [] : [
        html('h2', {}, has ? 'Latency over time' : 'Waiting over time'),
        soft(has ? 'Thick line: p50; thin line: p99; shaded up to the slowest. ' : '',
            'Dotted lines: a value expired and was loaded. Shaded bands and numbered bars: what was done to the service. ',
            'Crosses: requests failed.'),
        html('p', { class: 'soft pointing' }, 'Point at a plot for its values, drag across it to see a span of it. ' +
            'On a touch screen: one finger, two fingers. By keyboard: arrows, + and −, Esc.'),
        ...all];
};

const queries = () => {
    const isUsed = slice => slice.due > 0 || slice.loads > 0;
    const until = Math.max(1, ...results.map(result => usedMs(result, isUsed)));
    const hasAny = results.some(result => result.slices.some(slice => slice.loads > 0));
    return !hasAny ? [] : [html('h2', {}, 'Queries per second'),
        figure(new Queries(new Span(until, leastSeen(results))),
            'as the database began them, on a logarithmic scale')];
};

const curves = () => {
    const drawn = results.filter(result => result.curve.length > 0);
    const answers = Math.max(0, ...drawn.map(result => result.latency.count));
    return answers <= 1 ? [] : [html('h2', {}, 'Distribution of latency'),
        figure(new Curve(new Span(Math.log10(answers) + 0.3, 0.5)), 'so many percent of the answers took no longer, ' +
            'both scales logarithmic; the end of a line is its slowest answer')];
};

/* ---- the page ---- */

const end = () => [
    html('h2', {}, 'How far to trust it'),
    facts([...shared('Generator', result => result.strain.verdict), ...shared('Counting', result => result.caveat),
        ['Latency', 'from the instant at which a request was due to the end of its answer, whether it could leave ' +
            'then or not; percentiles by nearest rank over all answers, and none that so few answers cannot support']]),
    ...report.command === '' ? [] : [html('h2', {}, 'Again'), html('pre', {}, html('code', {}, report.command))],
];

const main = document.getElementById('main');
const drawAll = width => { for (const plot of plots) plot.draw(width); };

document.title = `${report.title} – stampede report`;
build(document.getElementById('head'), {}, head());
build(main, {}, [
    html('section', { class: 'cards', 'aria-label': 'At a glance' }, results.map(card)),
    checks(), timelines(), queries(), curves(), figures(), hot(), end()]);
drawAll();

let drawnFor = main.clientWidth;
new ResizeObserver(() => {
    if (main.clientWidth !== drawnFor) drawAll();
    drawnFor = main.clientWidth;
}).observe(main);
addEventListener('beforeprint', () => drawAll(700)); /* scaled to the paper */
addEventListener('afterprint', () => drawAll());
