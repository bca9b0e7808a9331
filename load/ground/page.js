/* SPDX-License-Identifier: MIT */
/*
 * page.js - the playground; app/view/plot.js stands before this.
 *
 *     /stream --> follow() --> show(state): guide, sentence, shop, story
 *     a button --> press() --> /act; what comes of it is told by the next state
 *
 * What the page shows is what the last state says.
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
    const { lease } = state, box = card.querySelector('.lease');
    box.hidden = lease?.process !== name;
    if (box.hidden) return;
    const isDead = state.processes.find(process => process.name === name).health !== 'up';
    setText(box, isDead ? `its lease on ${state.key} still stands for ${(lease.left_ms / 1000).toFixed(1)} s`
        : `has the lease on ${state.key}, for ${(lease.left_ms / 1000).toFixed(1)} s`);
    setShare(box, lease.left_ms / lease.lease_ms);
};

/* What it has said last may be so no longer. */
const isSilent = process => process.age_ms > 1500;
const nowOf = process => isSilent(process) || process.health === 'dead' ? { waiters: 0, running: 0, queued: 0 } : process;

const showProcess = (process, most) => {
    const card = one(`#${process.name}`), { waiters, running, queued } = nowOf(process);
    showHealth(card, process);
    card.classList.toggle('loads', running > 0);
    card.querySelector('.view').href = `http://${process.view}/`;
    setText(card.querySelector('.facts-line'), process.health === 'dead' ? 'gone' : isSilent(process)
        ? `nothing heard of it for ${Math.round(process.age_ms / 1000)} s`
        : `${countText(waiters)} waiting · ${plural(running, 'load', 'loads')}${queued > 0 ? `, ${countText(queued)} in line` : ''}`);
    setShare(card.querySelector('.meter span'), waiters / most);
    showLease(card, process.name);
};

const dots = Array.from({ length: 100 }, () => html('i', {}));

const showDatabase = () => {
    const total = name => state.processes.reduce((sum, process) => sum + nowOf(process)[name], 0);
    const running = total('running'), queued = total('queued');
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
    setText(one('#redis .facts-line'), state.lease !== null
        ? `lease: ${state.key} → ${state.lease.process}`
        : state.redis.health === 'up' ? `no lease of ${state.key}` : 'no lease can be seen');
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

/* A button that moves between press and release is not clicked: nothing moves meanwhile, for 5 s at most. */
let heldUntil = 0;

const show = line => {
    state = line;
    if (performance.now() < heldUntil) return;
    showGuide();
    showShop();
    showStory();
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
    document.addEventListener('pointerdown', () => { heldUntil = performance.now() + 5000; });
    for (const end of ['pointerup', 'pointercancel']) document.addEventListener(end, () => {
        heldUntil = 0;
        setTimeout(() => { if (state !== null) show(state); }); /* after the click */
    });
    document.addEventListener('click', event => {
        const button = event.target.closest('button');
        if (button === null || state === null || button.getAttribute('aria-disabled') === 'true') return;
        const found = wishes.find(([name]) => button.dataset[name] !== undefined);
        if (found !== undefined) press(found[1](button.dataset[found[0]], button));
    });
    one('#mode').addEventListener('change', event => press({ do: 'set', mode: event.target.value }));
    one('#delay').addEventListener('change', event => press({ do: 'set', delay_ms: Number(event.target.value) }));
    one('#rate').addEventListener('change', event => press({ do: 'rate', per_second: Number(event.target.value) }));
};

makeDeeds();
listen();
if (location.hash.length > 1) follow();
else say('Open the whole address that the terminal printed: what follows its # is the key to these buttons.', 'trouble');
