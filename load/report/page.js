/* SPDX-License-Identifier: MIT */
/* page.js - the page around the plots of page_plots.js: what the terminal says, too, and the rest. */

/* ---- the head ---- */

const paragraphs = text => text.split(/\n\n+/).filter(one => one !== '').map(one => html('p', {}, one));
const soft = (...texts) => html('p', { class: 'soft' }, texts.join(''));
const pairs = list => list.map(([what, text]) => [html('dt', {}, what), html('dd', {}, text)]);
const facts = list => html('dl', { class: 'facts' }, pairs(list));

/* What several results have in common is said once: ["Asked", "off, local: ..."]. */
const shared = (what, textOf) => {
    const texts = [...new Set(results.map((result, i) => textOf(result, i)))].filter(text => text !== '');
    return texts.map(text => {
        const who = results.flatMap((result, i) => textOf(result, i) === text ? [nameOf(i)] : []);
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
    sheet.headline.text === '' ? null : html('p', { class: 'lead' }, sheet.headline.text),
    verdict(),
    sheet.headline.caveats.map(text => html('p', { class: 'caveat' }, text)),
    ...paragraphs(report.about),
    facts(shared('Asked', result => result.what)),
];

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

const listed = (heading, isThere, textOf) => results.some(isThere) ? [html('h2', {}, heading),
    facts(results.flatMap((result, i) => isThere(result) ? [[nameOf(i), textOf(result)]] : []))] : [];
const keyOf = ({ key }) => key || 'without a key';
const hot = () => [
    listed('Most loads of one expiry', result => result.worst.length > 0,
        result => result.worst.map(one => `${keyOf(one)} × ${count(one.loads)} at ${(one.at_ms / 1e3).toFixed(2)} s`).join(', ')),
    listed('Most loaded keys', result => result.loaded_keys > 1,
        result => result.hot.map(one => `${keyOf(one)} × ${count(one.loads)}`).join(', '))].flat();

/* What a 503 said, and how a connection ended: the first of each kind. */
const samples = () => results.every(result => result.samples.length === 0) ? [] : [html('h2', {}, 'What went wrong'),
    soft('The first few of each kind: when it was due, what was asked, how long it took, and what came.'),
    ...results.flatMap((result, i) => result.samples.length === 0 ? [] : [
        results.length > 1 ? html('h3', {}, nameOf(i)) : null,
        facts([...new Set(result.samples.map(sample => sample.kind))].map(kind => [
            `${kind} × ${count(result.statuses[kind] ?? result.outcomes[kind] ?? 0)}`,
            html('ul', { class: 'samples' }, result.samples.filter(sample => sample.kind === kind).map(sample =>
                html('li', {}, html('span', { class: 'when' },
                    `${(sample.at_ms / 1e3).toFixed(3)} s, ${sample.url}, after ${latency(sample.took_us)}`),
                sample.text === '' ? null : html('q', {}, sample.text))))]))])];

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

/* Below a caption with the name of its result. */
const named = (plot, i, words, ...after) =>
    figure(plot, [html('h3', {}, stroke(lookOf(i), 'dashed thick'), nameOf(i)), words], after);
const pointing = () =>
    html('p', { class: 'soft pointing' }, 'Point at a plot for its values; by keyboard: arrows, Home, End, Esc.');
const expiriesOf = result => result.has_loads && (result.expiries > 0 || result.loads === 0)
    ? `; ${count(result.expiries ?? 0)} ${result.expiries === 1 ? 'expiry' : 'expiries'}` : '';

const bursts = () => {
    const drawn = results.filter(isBurst), span = new Span(Math.max(0.1, ...drawn.map(burstMs)));
    const roundsOf = result => result.rounds.length === 1 ? 'asked at one instant'
        : `asked at one instant, ${count(result.rounds.length)} rounds laid over each other`;
    return drawn.length === 0 ? [] : [html('h2', {}, 'After the instant of a burst'),
        soft('How many requests were answered after how long. The dotted line counts the queries; each stroke at the foot is ',
            'one, or several where there are many.'),
        pointing(),
        ...results.map((result, i) => !isBurst(result) ? null : named(new Burst(span, i), i,
            `${count(Math.max(...result.rounds.map(round => round.due)))} ${roundsOf(result)}`, eventList(result)))];
};

/* All plots of rates over time have one axis. */
const rates = results.filter(result => !isBurst(result) && result.slices.length > 0);
const rateSpan = new Span(Math.max(1, ...rates.map(endOf)));

const timelines = () => {
    return rates.length === 0 ? [] : [html('h2', {}, 'Latency over time'),
        soft('Thick line: p50; thin line: p99, over longer spans where answers are few; shaded up to the slowest. Dotted lines: a value expired and was loaded. ',
            'Shaded bands and numbered bars: what was done to the service. Crosses: requests failed.'),
        pointing(),
        ...results.map((result, i) => !rates.includes(result) ? null : named(new Latency(rateSpan, i), i,
            `latency of the requests due at each instant${expiriesOf(result)}`, eventList(result)))];
};

const queries = () => {
    const drawn = results.filter(result => !isBurst(result));
    const until = Math.max(1, ...drawn.map(result => usedMs(result, slice => slice.due > 0 || slice.loads > 0)));
    const hasAny = drawn.some(result => result.slices.some(slice => slice.loads > 0));
    return !hasAny ? [] : [html('h2', {}, 'Queries over time'),
        figure(new Queries(new Span(until)), 'as the database began them, on a logarithmic scale; dotted: how many were needed')];
};

/* ---- the page ---- */

const end = () => [
    html('h2', {}, 'How far to trust it'),
    facts([
        ...shared('Generator', (result, i) => sheet.doubted[i].times ? '' : result.strain.verdict),
        ...shared('Counting', (result, i) => sheet.doubted[i].loads ? '' : result.caveat),
        ...[['When', results[0]?.when ?? ''], ['Machine', report.machine]].filter(([, text]) => text !== ''),
        ['Latency', 'from the instant at which a request was due to the end of its answer, whether it could leave ' +
            'then or not; percentiles by nearest rank over all answers, and none that so few answers cannot support']]),
    ...report.command === '' ? [] : [html('h2', {}, 'Again'), html('pre', {}, html('code', {}, report.command))],
];

const main = document.getElementById('main');
const drawAll = width => { for (const plot of plots) plot.draw(width); };

document.title = `${report.title} – stampede report`;
build(document.getElementById('head'), {}, head());
build(main, {}, [
    checks(), bursts(), timelines(), queries(), samples(), figures(), hot(), end()]);
drawAll();

let drawnFor = main.clientWidth;
new ResizeObserver(() => {
    if (main.clientWidth !== drawnFor) drawAll();
    drawnFor = main.clientWidth;
}).observe(main);
addEventListener('beforeprint', () => drawAll(700)); /* scaled to the paper */
addEventListener('afterprint', () => drawAll());
