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

/* So many of the widest. A bar that stands for something is seen. */
const bar = (what, number, text, most, look) => html('li', { class: look }, html('span', { class: 'what' }, what),
    svg('svg', { 'aria-hidden': 'true' }, svg('rect', { class: 'bar', height: '100%',
        width: `${number === 0 ? 0 : Math.max(100 * number / most, 0.6)}%` })),
    html('span', { class: 'number' }, text));

/* What the headline says, as lengths: queries, beside those that there had to be; without any, latencies. */
const picture = () => {
    const counted = results.filter(result => result.has_loads), one = results.length === 1 ? results[0] : null;
    const least = result => (result.misses_loads ? '≥ ' : '') + count(result.loads);
    const most = Math.max(1, ...counted.map(result => result.loads));
    const bars = (list, caption = 'queries') => html('figure', { class: 'picture' }, html('figcaption', {}, caption), html('ol', {}, list));
    if (one?.has_loads)
        return bars([['requests', one.requests, count(one.requests), 's6'], ['queries', one.loads, least(one), 's0'],
            ...one.expiries > 0 ? [['needed', one.expiries, count(one.expiries), 's2']] : []]
            .map(([what, number, text, look]) => bar(what, number, text, Math.max(one.requests, one.loads, 1), look)), 'requests and queries');
    if (counted.length > 0)
        return bars(results.map((result, i) =>
            bar(nameOf(i), result.loads, result.has_loads ? least(result) : '–', most, lookOf(i))));
    const answered = results.filter(result => result.latency.count > 0);
    const slowest = Math.max(1, ...answered.map(result => result.latency.max_us));
    return answered.length === 0 ? null : bars(results.map((result, i) =>
        bar(nameOf(i), result.latency.max_us, latency(result.latency.max_us), slowest, lookOf(i))), 'the slowest answer');
};

const head = () => [
    html('div', { class: 'first' },
        html('div', {},
            html('h1', {}, report.title),
            sheet.headline.text === '' ? null : html('p', { class: 'lead' }, sheet.headline.text),
            verdict(),
            sheet.headline.caveats.map(text => html('p', { class: 'caveat' }, text))),
        picture()),
    ...paragraphs(report.about),
    facts(shared('Asked', result => result.what)),
];

/* ---- at a glance ---- */

/* A row of the sheet, below a heading if it is a part of something. */
const row = (label, heading) => {
    const from = heading === undefined ? 0 : sheet.rows.findIndex(one => one.label === heading);
    return from < 0 ? undefined : sheet.rows.slice(from).find(one => one.label === label);
};
const cell = (index, label, heading) => row(label, heading)?.cells[index] ?? '-';

const card = (result, index) => {
    const isUnknown = result.has_loads && result.loads > 0 && !result.expiries;
    const [loads, most, p99] = [cell(index, 'loads per expiry'), cell(index, 'most loads per expiry'), cell(index, 'p99', 'latency, ms')];
    const numbers = [
        ['most loads of one', most], ['queries', cell(index, 'queries')], ['requests', cell(index, 'requests')],
        ...[['p50', 'p50'], ['p95', 'p95'], ['p99', 'p99'], ['slowest', 'max']].map(([what, label]) => {
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
        isUnknown ? soft('loads per expiry: not known') : null,
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
    html('section', { class: 'cards', 'aria-label': 'At a glance' }, results.map(card)),
    checks(), bursts(), timelines(), queries(), samples(), figures(), hot(), end()]);
drawAll();

let drawnFor = main.clientWidth;
new ResizeObserver(() => {
    if (main.clientWidth !== drawnFor) drawAll();
    drawnFor = main.clientWidth;
}).observe(main);
addEventListener('beforeprint', () => drawAll(700)); /* scaled to the paper */
addEventListener('afterprint', () => drawAll());
