/* SPDX-License-Identifier: MIT */
/*
 * page.js - the playground. Samples are drawn by app/view/widgets.js, which stands before this.
 *
 *     /stream --> follow() --> show(state): guide, sentence, shop, plots, story
 *     a button --> press() --> /act; what comes of it is told by the next state
 *
 * What the page shows is what the last state says; it keeps nothing else but the last minute for its plots.
 */

const one = selector => document.querySelector(selector);
const all = selector => [...document.querySelectorAll(selector)];
const setText = (element, text) => { if (element.textContent !== text) element.textContent = text; };
const setShare = (element, share) => element.style.setProperty('--share', `${(100 * Math.min(Math.max(share, 0), 1)).toFixed(1)}%`);
const timeText = us => us < 9950 ? `${(us / 1000).toFixed(1)} ms` : us < 995000 ? `${Math.round(us / 1000)} ms` : `${(us / 1e6).toFixed(1)} s`;
const plural = (count, word, words) => `${countText(count)} ${count === 1 ? word : words}`;

let state = null;

/* ---- the playground itself ---- */

const authorization = () => ({ Authorization: `Bearer ${location.hash.slice(1)}` });

const say = (text, kind) => {
    const said = one('#said');
    setText(said, text);
    said.className = `said ${kind}`;
};

async function press(wish) {
    try {
        const answer = await fetch('/act', {
            method: 'POST', headers: { ...authorization(), 'Content-Type': 'application/json' }, body: JSON.stringify(wish) });
        if (!answer.ok) say((await answer.json()).error, 'trouble');
    } catch {
        say('The playground does not answer: has it ended?', 'trouble');
    }
}

const showLink = (text, kind) => {
    setText(one('#link'), text);
    one('#link').className = `link ${kind}`;
};

async function readLines(body, take) {
    const reader = body.getReader(), decoder = new TextDecoder();
    for (let text = ''; ;) {
        const { value, done } = await reader.read();
        if (done) return;
        const lines = (text + decoder.decode(value, { stream: true })).split('\n');
        text = lines.pop();
        const last = lines.filter(line => line !== '').pop();
        if (last !== undefined) take(JSON.parse(last));
    }
}

async function follow() {
    for (;;) {
        try {
            const answer = await fetch('/stream', { headers: authorization() });
            if (answer.ok) {
                showLink('live', 'good');
                await readLines(answer.body, show);
            } else say((await answer.json()).error, 'trouble');
        } catch { /* it has gone; said below */ }
        showLink('not connected; trying again', 'bad');
        await new Promise(resolve => setTimeout(resolve, 1000));
    }
}

/* ---- the last minute: of each process, and of both ---- */

/* Counters go on over the death of a process; what is now (waiters, ...) does not. */
const withoutNow = sample => ({
    ...sample, waiters: 0, flights: 0, running: [], hot: [], loads: { ...sample.loads, running: 0, queued: 0 },
    permits: { ...sample.permits, held: 0, waiting: 0 }, near: { ...sample.near, entries: 0, bytes: 0 },
    http: { ...sample.http, connections: 0, busy: 0, parked: 0 } });

class Life {
    constructor() { Object.assign(this, { pid: null, past: null, last: null }); }
    /* The sample as if it were of one process that never died; null: none has come yet. */
    add({ about, sample, health }) {
        if (sample === null || about === null) return null;
        if (this.pid !== about.pid && this.last !== null)
            this.past = withoutNow(this.past === null ? this.last : merged([this.past, this.last]));
        this.pid = about.pid;
        this.last = health === 'dead' ? withoutNow(sample) : sample;
        return this.past === null ? this.last : merged([this.last, this.past]);
    }
}

/* What is "per second" is counted over the second before, by the clock of the process itself: lines of the stream come at
 * other instants. */
const second = 1000, pace = 0.5; /* so far apart are two points at most, unless nothing is heard in between */
const aSecondBefore = (list, at) => list.findLast(one => one.at_ms <= at - second) ?? list[0];

/* Of one process. */
class Minute extends History {
    add(sample) { if (this.last === undefined || sample.at_ms > this.last.at_ms) super.add(sample); }
    between(before, after) { return { ...super.between(aSecondBefore(this.samples, after.at_ms), after), ...seen(), seconds: pace }; }
}

/* Of both: the sum of what each last told, which may be at other instants, and of one that is silent nothing. */
class Both extends History {
    add(sample, parts) {
        this.samples = [sample];
        const points = parts.map(part => part.points[part.points.length - 1]).filter(point => sample.at_ms - point?.at < second);
        if (points.length > 0)
            this.points.push({ ...sumOf(points.map(({ rates }) => ({ rates }))), ...seen(), at: sample.at_ms, sample, seconds: pace });
        this.points = this.points.filter(({ at }) => at >= sample.at_ms - 1000 * this.seconds);
    }
}

const lives = [new Life(), new Life()];
let minutes = null, plots = null, ticks = [];

/* What is not a process's: queries, and what clients saw. */
const seen = () => {
    const before = aSecondBefore(ticks, state.at_ms), seconds = (state.at_ms - before.at_ms) / 1000;
    return { queries: seconds > 0 ? (state.postgres.queries - before.queries) / seconds : 0, p50: state.clients.p50_us, p99: state.clients.p99_us };
};

const rememberAll = () => {
    const samples = state.processes.map((process, i) => lives[i].add(process));
    ticks = [...ticks.filter(({ at_ms }) => at_ms >= state.at_ms - 2 * second), { at_ms: state.at_ms, queries: state.postgres.queries }];
    if (samples.some(sample => sample === null)) return null;
    const bounds = state.processes[0].about.bounds_us;
    minutes ??= { both: new Both(bounds), 0: new Minute(bounds), 1: new Minute(bounds) };
    samples.forEach((sample, i) => minutes[i].add({ ...sample, up_ms: sample.at_ms }));
    minutes.both.add({ ...merged(samples), at_ms: state.at_ms }, [minutes[0], minutes[1]]);
    return samples;
};

const makePlots = () => {
    const queries = new Moving('Queries in PostgreSQL per second',
        'As its own log counts them, of all processes.', {
            series: [{ look: 'load', title: 'queries', of: point => point.queries }] });
    const hot = new Rows('Hot keys', 'Loads that the guard has saved, of the last minutes.', 'None yet: send a crowd to a guard that is on.', 10);
    const permits = new Facts('Loads and permits');
    const latency = new Moving('Time to an answer', 'As crowds and steady traffic saw it in the last second, whoever answered.', {
        isLog: true, least: 100, most: 1e8, text: timeText,
        series: [{ look: 'p50', title: 'half within', of: point => point.p50 }, { look: 'p99', title: '99 % within', of: point => point.p99 }] });
    const drawn = [answersPlot(), queries, waitersPlot(), latency];
    one('#panels').append(...drawn.map(plot => plot.element), hot.element, permits.element);
    return { drawn, hot, permits };
};

const permitHint = 'A permit lets one load of one key run; the fleet shares so many, for its database to bear.';
const leaseHint = 'A lease says which process may load a key: it stands in Redis, and ends by itself if its holder dies.';

const showPlots = samples => {
    const minute = minutes[one('input[name=whose]:checked').value];
    plots ??= makePlots();
    for (const plot of plots.drawn) plot.show(minute);
    const { last } = minute, abouts = state.processes.map(process => process.about);
    plots.hot.show(hotRows({ hot: hotOf(samples) }));
    plots.permits.show([
        ['loads that run', countText(last.loads.running)],
        ['loads in line', countText(last.loads.queued)],
        ['permits held, of all processes', abouts[0].load_permits > 0
            ? `${countText(samples[0].permits.held + samples[1].permits.held)} of ${abouts[0].load_permits}` : 'no limit', permitHint],
        ['waiting for a permit', countText(last.permits.waiting), permitHint],
        ...(abouts[0].mode === 'fleet' ? [
            ['leases taken', countText(last.leases.acquired), leaseHint],
            ['leases that another process had', countText(last.leases.busy), leaseHint],
        ] : []),
        ['commands to Redis', countText(last.redis.commands)],
        ['answers with an error', countText(last.http.statuses['5xx'])],
    ]);
};

/* ---- the guide ---- */

const steps = { off: { mode: 'off' }, fleet: { mode: 'fleet' }, hit: { mode: 'fleet', hit: 'kill' } };
const stepNames = Object.keys(steps);

const outcome = ({ requests, queries, max_us, failed }, isOver) => [
    html('b', {}, countText(queries)), html('span', {}, `${queries === 1 ? 'query' : 'queries'}${isOver ? '' : ' so far'}`),
    html('div', { class: 'track', 'aria-hidden': 'true' }, html('span', {})),
    html('span', { class: 'soft' }, !isOver ? `${countText(state.clients.waiting)} wait for an answer`
        : `slowest answer ${timeText(max_us)}${failed > 0 ? `; ${countText(failed)} did not get the product` : ''}`)];

const showOutcome = (step, result, isOver) => {
    const box = one(`#step-${step} .outcome`);
    const text = JSON.stringify([result, isOver]);
    if (box.dataset.shown === text) return;
    box.dataset.shown = text;
    box.hidden = false;
    box.className = `outcome ${result.queries > 10 ? 'many' : 'few'}`;
    box.replaceChildren(...outcome(result, isOver));
    setShare(box.querySelector('.track span'), result.queries / result.requests);
};

const showGuide = () => {
    const runs = state.job?.step || null, done = stepNames.filter(name => state.steps[name] !== undefined);
    const next = runs === null ? stepNames.find(name => !done.includes(name)) : null;
    for (const name of stepNames) {
        const card = one(`#step-${name}`);
        card.classList.toggle('next', name === next);
        card.classList.toggle('runs', name === runs);
        if (name === runs) showOutcome(name, {
            requests: state.job.requests, queries: state.job.queries, waiting: state.clients.waiting }, false);
        else if (state.steps[name] !== undefined) showOutcome(name, state.steps[name], true);
    }
    setText(one('#query-time'), state.delay_ms === 500 ? 'half a second' : timeText(1000 * state.delay_ms));
};

/* ---- the shop ---- */

/* Of a party; its name follows where none stands in it. */
const deedNames = {
    kill: 'Kill', pause: 'Pause', resume: 'Resume', start: 'Start', hang: 'Hang', heal: 'Heal', flush: 'Empty',
    lock: 'Lock the table', break: 'Break the table', repair: 'Repair the table' };
const partyNames = { a: 'A', b: 'B', redis: 'Redis', postgres: 'PostgreSQL' };
const deedText = (party, verb) => deedNames[verb].includes(' ') ? deedNames[verb] : `${deedNames[verb]} ${partyNames[party]}`;
const healthTexts = {
    up: ['up', 'good'], paused: ['paused', 'warn'], dead: ['killed', 'bad'], hung: ['hangs', 'bad'], locked: ['table locked', 'warn'],
    broken: ['table broken', 'bad'], starting: ['starting', 'warn'] };
/* In which state a deed can be done: as deeds.c has it, which refuses the others. */
const possible = {
    kill: ['up', 'paused', 'hung'], pause: ['up'], resume: ['paused'], start: ['dead'], hang: ['up'], heal: ['hung'], flush: ['up'],
    lock: ['up'], break: ['up'], repair: ['broken'] };

const enable = (button, isOn, why) => {
    button.setAttribute('aria-disabled', String(!isOn));
    button.title = isOn ? '' : why;
};

const showHealth = (card, party) => {
    const [text, kind] = healthTexts[party.health], health = card.querySelector('.health');
    setText(health, party.back_ms > 0 ? `${text}, back in ${Math.ceil(party.back_ms / 1000)} s` : text);
    health.className = `health ${kind}`;
    card.classList.toggle('ill', party.health !== 'up');
    for (const button of card.querySelectorAll('[data-deed]')) {
        const verb = button.dataset.deed;
        enable(button, possible[verb].includes(party.health), `not while it is ${text}`);
        button.hidden = ['resume', 'start', 'heal', 'repair'].includes(verb) && !possible[verb].includes(party.health)
            && document.activeElement !== button;
    }
};

const showLease = (card, name) => {
    const lease = state.leases.find(lease => lease.process === name), box = card.querySelector('.lease');
    box.hidden = lease === undefined;
    if (lease === undefined) return;
    const isDead = state.processes.find(process => process.name === name).health !== 'up';
    setText(box, isDead ? `its lease on ${lease.key} still stands for ${(lease.left_ms / 1000).toFixed(1)} s`
        : `has the lease on ${lease.key}, for ${(lease.left_ms / 1000).toFixed(1)} s`);
    setShare(box, lease.left_ms / lease.lease_ms);
};

/* What it has said last may be so no longer. */
const isSilent = process => process.sample === null || process.age_ms > 1500;
const nowOf = process => isSilent(process) || process.health === 'dead'
    ? { waiters: 0, loads: { running: 0, queued: 0 } } : process.sample;

const showProcess = (process, most) => {
    const card = one(`#${process.name}`), { waiters, loads } = nowOf(process);
    showHealth(card, process);
    card.classList.toggle('loads', loads.running > 0);
    setText(card.querySelector('.facts-line'), process.health === 'dead' ? 'gone' : isSilent(process)
        ? `nothing heard of it for ${Math.round(process.age_ms / 1000)} s`
        : `${countText(waiters)} waiting · ${plural(loads.running, 'load', 'loads')}${loads.queued > 0 ? `, ${countText(loads.queued)} in line` : ''}`);
    setShare(card.querySelector('.meter span'), waiters / most);
    showLease(card, process.name);
};

const dots = Array.from({ length: 100 }, () => html('i', {}));

const showDatabase = () => {
    const now = state.processes.map(nowOf), running = now.reduce((sum, { loads }) => sum + loads.running, 0);
    const queued = now.reduce((sum, { loads }) => sum + loads.queued, 0);
    const count = state.job !== null ? state.job.queries : state.postgres.queries;
    showHealth(one('#postgres'), state.postgres);
    setText(one('#queries'), countText(count));
    setText(one('#queries-what'), `${count === 1 ? 'query' : 'queries'} ${state.job !== null ? 'for this crowd' : 'so far'}`);
    setText(one('#postgres .facts-line'), `${countText(running)} at work${queued > 0 ? `, ${countText(queued)} in line` : ''}`);
    dots.forEach((dot, i) => { dot.className = i < running ? 'on' : ''; });
};

const showShop = () => {
    const most = Math.max(state.job?.requests / 2 || 0, ...state.processes.map(process => nowOf(process).waiters), 1);
    setText(one('#waiting'), countText(state.clients.waiting));
    for (const process of state.processes) showProcess(process, most);
    showHealth(one('#redis'), state.redis);
    const { sample } = state.processes[0];
    setText(one('#redis .facts-line'), state.leases.length > 0
        ? `lease: ${state.leases.map(({ key, process }) => `${key} → ${process}`).join(', ')}`
        : state.redis.health === 'up' ? 'no lease is taken' : 'no lease can be seen');
    showDatabase();
    showChoices();
};

const modeTexts = {
    off: 'Every miss asks the database.', local: 'One query for each product in each process.',
    fleet: 'One query for each product, whatever the number of processes.', shadow: 'As off, while the guard counts what it would save.' };

/* What has been chosen elsewhere, or has not been taken: unless it is being chosen right now. */
const choose = (select, value) => {
    if (document.activeElement === select) return;
    if (![...select.options].some(option => option.value === value)) select.append(new Option(value, value));
    select.value = value;
};

const showChoices = () => {
    for (const radio of all('input[name=mode]')) radio.checked = radio.value === state.mode;
    setText(one('#mode-said'), modeTexts[state.mode]);
    choose(one('#delay'), String(state.delay_ms));
    choose(one('#rate'), String(state.per_second));
    for (const button of all('[data-step], [data-crowd], #mode input'))
        enable(button, state.job === null, 'a crowd is under way');
    for (const button of all('[data-hit]'))
        setText(button, `${state.job !== null ? '' : 'Send a crowd and '}${button.dataset.hit} the loader`.replace(/^./, letter => letter.toUpperCase()));
};

/* ---- the story ---- */

let told = -1, toldBefore = -1; /* so far; before the crowd that is under way */

const showStory = () => {
    const news = state.story.filter(({ n }) => n > told), last = state.story[state.story.length - 1];
    if (state.job !== null && news.length === 0 && told === toldBefore) say(`${plural(state.job.requests, 'request is', 'requests are')} on the way ...`, '');
    if (state.job === null) toldBefore = told;
    if (news.length === 0) return;
    told = last.n;
    say(last.text, last.kind);
    one('#story').replaceChildren(...state.story.slice().reverse().map(({ at_ms, kind, text }) => html('li', {},
        html('time', {}, new Date(at_ms).toLocaleTimeString([], { hour12: false })), html('span', { class: kind }, text))));
};

const show = line => {
    state = line;
    const samples = rememberAll();
    showGuide();
    showShop();
    showStory();
    if (samples !== null) showPlots(samples);
};

/* ---- buttons ---- */

const requestsOf = () => Number(one('#requests').value);
const wishes = [
    ['step', name => ({ do: 'rush', step: name, requests: 1000, ...steps[name] })],
    ['crowd', name => ({ do: 'rush', requests: requestsOf(), many: one('#products').value === 'many', warm: name === 'warm' })],
    ['do', name => ({ do: name })],
    ['hit', verb => state.job !== null ? { do: 'hit', verb } : { do: 'rush', requests: requestsOf(), hit: verb }],
    ['deed', (verb, button) => ({ do: 'deed', name: `${button.closest('[data-party]').dataset.party}-${verb}` })],
];

const makeDeeds = () => {
    for (const box of all('[data-deeds]'))
        box.append(...box.dataset.deeds.split(' ').map(verb => html('button', { type: 'button', 'data-deed': verb },
            deedText(box.closest('[data-party]').dataset.party, verb))));
    one('#dots').append(...dots);
};

const listen = () => {
    document.addEventListener('click', event => {
        const button = event.target.closest('button');
        if (button === null || state === null || button.getAttribute('aria-disabled') === 'true') return;
        const found = wishes.find(([name]) => button.dataset[name] !== undefined);
        if (found !== undefined) press(found[1](button.dataset[found[0]], button));
    });
    one('#mode').addEventListener('change', event => press({ do: 'set', mode: event.target.value }));
    one('#delay').addEventListener('change', event => press({ do: 'set', delay_ms: Number(event.target.value) }));
    one('#rate').addEventListener('change', event => press({ do: 'rate', per_second: Number(event.target.value) }));
    one('#whose').addEventListener('change', () => { if (plots !== null) show(state); });
};

makeDeeds();
listen();
if (location.hash.length > 1) follow();
else say('Open the whole address that the terminal printed: what follows its # is the key to these buttons.', 'trouble');
