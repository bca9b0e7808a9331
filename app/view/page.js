/* SPDX-License-Identifier: MIT */
/*
 * page.js - the live view of one process: reads /live for as long as somebody looks, and shows it; widgets.js comes
 * before it.
 *
 *     connect --200--> lines --end, or none for silentMs--> wait --> connect
 *        |---401--> the token is asked for --> connect
 *        +---503, or no answer--> wait, longer each time --> connect
 *
 * The fragment #every_ms=200 asks for five lines a second. The token stays in this tab (sessionStorage) and goes in a
 * header, never in an address. A page that nobody has seen for hiddenMs leaves its place to another viewer.
 */

const staleMs = 3000, silentMs = 15000, hiddenMs = 30000, firstPauseMs = 500, longestPauseMs = 10000;
const everyMs = Number(new URLSearchParams(location.hash.slice(1)).get('every_ms')) || 1000;
const byId = id => document.getElementById(id);

/* ---- what is shown ---- */

let about = null; /* of the process that tells */
let history = null, view = null;

const tiles = () => new Tiles([
    ['Answers', of => [rateText(sumOf(of.rates)), '/s', `${countText(answered(of.sample))} since the start`]],
    ['Queries', of => [rateText(of.loads), '/s', of.loads > 0 ? `one for ${countText(sumOf(of.rates) / of.loads)} answers` : 'none in 10 s']],
    ['Without a query', of => {
        const all = sumOf(of.rates);
        return [all > 0 ? shareText(Math.max(0, 1 - of.loads / all)) : '–', '', 'of the last 10 s'];
    }],
    ['Waiting', of => [countText(of.sample.waiters), '', `in ${countText(of.sample.flights)} ${of.sample.flights === 1 ? 'flight' : 'flights'}`]],
    ['99 % answered within', of => [boundText(of.p99, about.bounds_us), '', `half within ${boundText(of.p50, about.bounds_us)}`]],
    ['Loads running', of => [countText(of.sample.loads.running), `of ${countText(about.max_loads)}`, `${countText(of.sample.loads.queued)} queued`]],
]);

const makeView = () => {
    const made = {
        tiles: tiles(), running: new Rows('Running loads', 'The oldest first.', 'None at this instant.', 5),
        plots: [answersPlot(), loadsPlot(), waitersPlot(), latencyPlot(about.bounds_us)],
        hot: new Rows('Hot keys', 'Queries that the guard has saved; halves every minute.', 'No key has been waited for lately.', 6),
        guard: new Facts('Guard'), redis: new Facts('Redis'), http: new Facts('HTTP'),
    };
    made.plots[0].element.classList.add('wide');
    byId('main').replaceChildren(made.tiles.element, html('div', { class: 'panels' }, made.plots[0].element, made.running.element,
        made.hot.element, made.plots.slice(1).map(plot => plot.element), made.guard.element, made.redis.element, made.http.element));
    return made;
};

const guardFacts = ({ loads, leases, permits, shadow, near }) => [
    ['loads that failed', countText(loads.failed)], ['loads without a lease', countText(loads.uncached)],
    ['duplicate loads', countText(loads.duplicate)], ['background refreshes', countText(loads.refreshes)],
    ['leases taken', countText(leases.acquired)], ['leases that another process had', countText(leases.busy)],
    ['leases lost', countText(leases.lost)],
    ['permits held', about.load_permits > 0 ? `${countText(permits.held)} of ${countText(about.load_permits)}` : null],
    ['waiting for a permit', about.load_permits > 0 ? countText(permits.waiting) : null],
    ['entries in the near cache', about.near_bytes > 0 ? countText(near.entries) : 'it is off'],
    ['its bytes', about.near_bytes > 0 ? `${bytesText(near.bytes)} of ${bytesText(about.near_bytes)}` : null],
    ['loads that mode fleet would save', about.mode === 'shadow' ? countText(shadow.saved) : null],
];
const redisFacts = ({ redis }, recent) => [
    ['commands', `${rateText(recent.commands)} /s`], ['commands since the start', countText(redis.commands)],
    ['round trips', countText(redis.round_trips)], ['timeouts', countText(redis.timeouts)], ['errors', countText(redis.errors)],
];
const httpFacts = ({ http }, recent) => [
    ['connections', countText(http.connections)], ['busy', countText(http.busy)], ['parked, waiting for a load', countText(http.parked)],
    ...Object.entries(http.statuses).map(([name, count]) => [`answered ${name}`, `${rateText(recent.statuses[name])} /s, ${countText(count)} in all`]),
];

const showAbout = sample => {
    byId('name').textContent = `catalogd ${about.namespace}`;
    byId('about').textContent = `mode ${about.mode} · ${about.address} · pid ${about.pid} · version ${about.version} · up ${spanText(sample.up_ms)}`;
};

const show = sample => {
    const recent = history.recent(10) ?? history.between(sample, sample);
    showAbout(sample);
    showStates(byId('states'), statesOf(sample));
    view.tiles.show(recent);
    for (const plot of view.plots) plot.show(history);
    view.running.show(runningRows(sample));
    view.hot.show(hotRows(sample));
    view.guard.show(guardFacts(sample));
    view.redis.show(redisFacts(sample, recent));
    view.http.show(httpFacts(sample, recent));
};

/* ---- the link ---- */

const link = { abort: null, timer: 0, pauseMs: firstPauseMs, heardAt: 0, isLive: false, isEnding: false };

/* Said once for each change. */
const say = (kind, text, ...more) => {
    const element = byId('link');
    if (element.dataset.said !== text) element.replaceChildren(html('span', {}, text), ...more);
    element.dataset.said = text;
    element.className = `link ${kind}`;
    document.title = `${kind === 'good' ? '' : `${text} · `}${about === null ? 'catalogd' : about.namespace}, live`;
};

const begin = sample => {
    const isNew = about !== null && (about.pid !== sample.about.pid || sample.up_ms < history.last.up_ms);
    const fits = about !== null && String(about.bounds_us) === String(sample.about.bounds_us);
    about = sample.about;
    if (!fits) [history, view] = [new History(about.bounds_us), makeView()];
    if (isNew) history.mark(sample.at_ms, 'restarted');
    byId('ask').hidden = true;
    byId('main').hidden = false;
};

const hear = line => {
    const sample = JSON.parse(line);
    if (sample.about !== undefined) begin(sample);
    link.heardAt = performance.now();
    link.isEnding = sample.draining;
    link.pauseMs = firstPauseMs;
    history.add(sample);
    document.body.classList.remove('stale');
    if (sample.draining) say('warn', 'Shutting down');
    else say('good', 'Live');
    show(sample);
};

const readLines = async body => {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        const lines = (rest + value).split('\n');
        rest = lines.pop();
        lines.forEach(hear);
    }
};

const ask = why => {
    const isAsked = !byId('ask').hidden;
    byId('why').textContent = why;
    byId('ask').hidden = false;
    if (!isAsked) byId('token').focus();
    say('warn', 'A token is needed');
};

const again = (why, pauseMs) => {
    document.body.classList.add('stale');
    const now = html('button', { type: 'button' }, 'Now');
    now.addEventListener('click', connect);
    say('bad', `${why}; trying again in ${Math.max(1, Math.round(pauseMs / 1000))} s`, now);
    clearTimeout(link.timer);
    link.timer = setTimeout(connect, pauseMs);
    link.pauseMs = Math.min(2 * link.pauseMs, longestPauseMs);
};

const refused = async answer => {
    const problem = await answer.json().catch(() => ({ title: `HTTP ${answer.status}`, detail: '' }));
    const after = 1000 * Number(answer.headers.get('Retry-After'));
    if (answer.status !== 401) again(`${problem.title}: ${problem.detail}`.replace(/[.: ]*$/, ''), Math.max(after, link.pauseMs));
    else if (sessionStorage.getItem('token') === null) ask('It is in the file that OPS_TOKEN_FILE names, and stays in this tab.');
    else ask('That token was refused. The right one is in the file that OPS_TOKEN_FILE names.');
};

async function connect() {
    clearTimeout(link.timer);
    link.abort?.abort();
    const abort = link.abort = new AbortController(), token = sessionStorage.getItem('token');
    let why = 'No connection';
    try {
        const answer = await fetch(`/live?every_ms=${everyMs}`, { cache: 'no-store', credentials: 'omit', redirect: 'error', signal: abort.signal,
            headers: token === null ? {} : { Authorization: `Bearer ${token}` } });
        link.heardAt = performance.now();
        if (!answer.ok) return await refused(answer);
        link.isLive = true;
        await readLines(answer.body);
        why = link.isEnding ? 'The process has ended' : 'The stream has ended';
    } catch (error) {
        if (link.isLive) why = 'The connection is lost';
    } finally {
        link.isLive = false;
    }
    if (link.abort === abort) again(why, link.pauseMs * (0.75 + Math.random() / 2));
}

const leave = why => {
    clearTimeout(link.timer);
    const { abort } = link;
    link.abort = null;
    abort?.abort();
    say('warn', why);
};

/* A stream that says nothing is stale; after a while it is given up. */
const watch = () => {
    if (!link.isLive) return;
    const quietMs = performance.now() - link.heardAt;
    if (quietMs > silentMs + everyMs) {
        leave('Silent');
        again(`The process has been silent for ${Math.round(quietMs / 1000)} s`, link.pauseMs);
    } else if (quietMs > staleMs + everyMs) {
        document.body.classList.add('stale');
        say('warn', `Stale: nothing heard for ${Math.round(quietMs / 1000)} s`);
    }
};

/* ---- begin ---- */

let hiding = 0;
document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(() => leave('Paused while nobody looked'), hiddenMs);
    else if (link.abort === null) connect();
});
byId('ask').addEventListener('submit', event => {
    event.preventDefault();
    sessionStorage.setItem('token', byId('token').value.trim());
    byId('token').value = '';
    connect();
});
setInterval(watch, 500);
say('warn', 'Connecting');
connect();
