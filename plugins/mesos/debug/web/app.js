// SPDX-License-Identifier: Apache-2.0
'use strict';

const every = 2000; // milliseconds between two looks
const mostRows = 200; // of a table
const $ = (id) => document.getElementById(id);
const state = { paused: false, seq: 0, events: [], agents: [], tasks: [], pod: null, skew: 0, busy: false };

// el makes an element; text is always text, whatever a pod or a host is called.
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k === 'onclick') e.addEventListener('click', v);
    else if (v !== undefined && v !== '') e.setAttribute(k, v);
  }
  e.append(...children.filter((c) => c !== undefined && c !== null));
  return e;
}

function svg(tag, attributes, ...children) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

async function ask(path) {
  const response = await fetch('v1/' + path, { headers: { Accept: 'application/json' } });
  const answer = await response.json().catch(() => ({ message: response.statusText }));
  if (!response.ok) throw new Error(answer.message || response.statusText);
  return answer;
}

// since says how long ago something was by the scheduler's clock.
function since(time) {
  if (!time) return '';
  return length((Date.now() + state.skew - Date.parse(time)) / 1000);
}

function length(seconds) {
  const s = Math.max(0, seconds);
  if (s < 1) return Math.round(s * 1000) + ' ms';
  if (s < 120) return Math.round(s) + ' s';
  if (s < 7200) return Math.round(s / 60) + ' min';
  if (s < 172800) return Math.round(s / 3600) + ' h';
  return Math.round(s / 86400) + ' d';
}

function number(v) {
  return Number(v.toFixed(v < 10 ? 2 : 1)).toString();
}

function mib(v) {
  return v >= 1024 ? number(v / 1024) + ' GiB' : number(v) + ' MiB';
}

function amounts(a) {
  const parts = [];
  if (a.cpus) parts.push(number(a.cpus) + ' cpus');
  if (a.mem) parts.push(mib(a.mem));
  if (a.disk) parts.push(mib(a.disk) + ' disk');
  if (a.gpus) parts.push(number(a.gpus) + ' gpus');
  return parts.join(', ') || 'nothing';
}

const colours = {
  Running: 'good', subscribed: 'good', Unclear: 'bad', Unreachable: 'bad', Unheld: 'bad', unreachable: 'bad', ambiguous: 'bad', failing: 'bad',
  'framework removed': 'bad', 'failed over': 'bad', Claimed: 'doubt', Launching: 'doubt', Restored: 'doubt', Starting: 'doubt',
  draining: 'doubt', connecting: 'doubt',
};

function podButton(namespace, name) {
  const full = namespace + '/' + name;
  return el('button', { type: 'button', class: 'link', onclick: () => { location.hash = 'pod=' + encodeURIComponent(full); } }, full);
}

// fill replaces the rows of a table, and keeps the focus where it was.
function fill(id, rows) {
  const table = $(id), focused = document.activeElement;
  label(table, rows);
  const again = table.contains(focused) ? focused.textContent : null;
  table.tBodies[0].replaceChildren(...rows);
  table.hidden = rows.length === 0;
  if (again !== null) {
    const button = [...table.querySelectorAll('button')].find((b) => b.textContent === again);
    if (button) button.focus({ preventScroll: true });
  }
}

// label repeats the header in each cell: on a narrow screen the cells stand below each other.
function label(table, rows) {
  const names = [...table.tHead.rows[0].cells].map((c) => c.textContent);
  for (const row of rows) [...row.cells].forEach((c, i) => c.setAttribute('data-label', names[i]));
}

function more(id, shown, total) {
  $(id).hidden = shown >= total;
  $(id).textContent = shown + ' of ' + total + ' are shown.';
}

function showStatus(s) {
  state.skew = Date.parse(s.time) - Date.now();
  const phase = $('phase');
  phase.textContent = s.leading ? s.phase : 'standby';
  phase.className = 'badge ' + (s.leading ? colours[s.phase] || '' : '');
  $('where').textContent = s.master ? s.master.replace(/^https?:\/\//, '') : '';
  document.title = (s.leading ? s.phase : 'standby') + ' – ' + (s.framework || 'kube-mesos-scheduler');
  let problem = s.problem || '';
  if (s.removalsStopped) problem = 'No pod is removed and no task killed since ' + since(s.removalsStopped) + '. To release: annotate ' + s.release + '. ' + problem;
  if (!s.leading) problem = 'This scheduler stands by: another one leads.';
  $('problem').hidden = problem === '';
  if ($('problem').textContent !== problem) $('problem').textContent = problem;

  const waiting = Object.values(s.waiting).reduce((a, b) => a + b, 0);
  const cards = [
    ['Offers in hand', s.offers.held], ['Agents', s.agents], ['Running', (s.tasks.Running || 0)],
    ['Starting', ['Claimed', 'Launching', 'Starting', 'Restored'].reduce((n, k) => n + (s.tasks[k] || 0), 0)],
    ['Waiting pods', waiting, waiting ? 'doubt' : ''], ['Without a task', s.tasks.Unheld || 0, s.tasks.Unheld ? 'bad' : ''],
    ['Unreachable', s.tasks.Unreachable || 0, s.tasks.Unreachable ? 'bad' : ''], ['Unknown tasks', s.strangers, s.strangers ? 'doubt' : ''],
  ];
  $('cards').replaceChildren(...cards.map(([name, n, c]) => el('div', { class: c }, el('dt', {}, name), el('dd', {}, String(n)))));
  $('states').replaceChildren(...Object.entries(s.tasks).filter(([, n]) => n > 0).map(([name, n]) => el('li', { class: colours[name] }, name + ': ' + n)));
  const f = s.offers;
  const about = [
    ['Framework', s.framework + ' ' + s.frameworkId], ['Master', s.master], ['Subscription', s.phase + ' for ' + since(s.phaseSince)],
    ['Reconciled', s.reconciled ? 'yes' : 'not yet'],
    ...s.roles.map((r) => ['Role ' + r.name, r.suppressed ? 'suppressed: no pod waits' : 'offers flow']),
    ['Offers', f.received + ' received = ' + f.held + ' held + ' + f.accepted + ' accepted + ' + f.declined + ' declined + ' + f.rescinded + ' rescinded + ' + f.lost + ' lost'],
    ['Version', s.version + ' (' + s.kubernetesVersion + '), up for ' + since(s.started)],
  ];
  $('about').replaceChildren(...about.flatMap(([k, v]) => [el('dt', {}, k), el('dd', {}, v)]));
  const args = JSON.stringify(s.args, null, 2);
  if ($('args').textContent !== args) $('args').textContent = args;
}

function bar(a, unit, of, most) {
  const free = Math.max(0, of(a.offered) - of(a.claimed));
  const last = a.offers ? 0 : Math.max(0, of(a.lastOffered) - of(a.claimed));
  const parts = [['running', of(a.running)], ['claimed', of(a.claimed)], ['offered', free], ['last', last]];
  const total = parts.reduce((n, p) => n + p[1], 0);
  const words = unit(of(a.running)) + ' held by tasks, ' + unit(of(a.claimed)) + ' claimed, ' + (a.offers || !a.lastOfferedAt ? unit(free) + ' free in offers' : unit(last) + ' in its last offer, ' + since(a.lastOfferedAt) + ' ago');
  const b = el('div', { class: 'bar', role: 'img', 'aria-label': words, title: words });
  for (const [name, v] of parts) {
    if (v <= 0) continue;
    const s = el('span', { class: name });
    s.style.width = (100 * v / Math.max(most, total)) + '%';
    b.append(s);
  }
  return el('td', {}, b, el('small', {}, unit(of(a.running) + of(a.claimed)) + ' of ' + unit(total)));
}

function showAgents() {
  const filter = $('agent-filter').value.trim().toLowerCase();
  const how = (a) => (a.gone ? 'gone' : a.trouble || (a.maintenanceStart ? 'maintenance' : a.offers ? 'offering' : a.lastOfferedAt ? 'last offer ' + since(a.lastOfferedAt) + ' ago' : 'no offer'));
  const all = state.agents.filter((a) => (a.node + ' ' + a.hostname + ' ' + how(a) + ' ' + a.id).toLowerCase().includes(filter));
  const cpus = (x) => x.cpus, mem = (x) => x.mem;
  const most = (of) => Math.max(1e-9, ...state.agents.map((a) => of(a.running) + Math.max(of(a.offered), of(a.claimed), a.offers ? 0 : of(a.lastOffered))));
  const mostCPUs = most(cpus), mostMem = most(mem);
  fill('agents', all.slice(0, mostRows).map((a) => el('tr', {},
    el('th', { scope: 'row', title: a.id }, a.node || a.hostname),
    el('td', { class: colours[a.trouble] || (a.gone ? 'bad' : '') }, how(a)),
    el('td', { class: 'n' }, String(a.tasks)),
    bar(a, number, cpus, mostCPUs), bar(a, mib, mem, mostMem))));
  $('agents-none').hidden = all.length > 0;
  $('agents-none').textContent = state.agents.length ? 'No agent matches the filter.' : 'No agent has made an offer yet.';
  more('agents-more', Math.min(all.length, mostRows), all.length);
}

function showWaiting(list) {
  fill('waiting', list.items.slice(0, mostRows).map((p) => el('tr', {},
    el('td', { class: 'wrap' }, podButton(p.namespace, p.name)), el('td', { class: 't' }, since(p.since)),
    el('td', {}, amounts(p.need) + (p.ports ? ', ports ' + p.ports.join(', ') : '')),
    el('td', { class: 'wrap' }, p.reason, el('small', {}, p.message)))));
  $('waiting-none').hidden = list.items.length > 0;
  more('waiting-more', Math.min(list.items.length, mostRows), list.total);
}

function showTasks() {
  const filter = $('pod-filter').value.trim().toLowerCase();
  const all = state.tasks.items.filter((t) => (t.namespace + '/' + t.name).toLowerCase().includes(filter));
  fill('tasks', all.slice(0, mostRows).map((t) => el('tr', {},
    el('td', { class: 'wrap' }, podButton(t.namespace, t.name)), el('td', { class: colours[t.state] }, t.state),
    el('td', { class: 't' }, since(t.stateSince)), el('td', {}, t.node), el('td', {}, amounts(t.amounts)))));
  more('tasks-more', Math.min(all.length, mostRows), filter ? all.length : state.tasks.total);
}

function details(s) {
  const parts = [s.state, s.status && s.status !== s.state ? s.status : '', s.reason, s.node, s.message];
  return parts.filter(Boolean).join(' · ');
}

function clock(time) {
  return new Date(time).toLocaleTimeString([], { hour12: false });
}

function showEvents(list) {
  for (const e of list.items) {
    if (e.seq > state.seq) {
      state.events.push(e);
      state.seq = e.seq;
    }
  }
  if (list.items.length === 0 && $('events').tBodies[0].rows.length) return;
  state.events = state.events.slice(-150);
  fill('events', state.events.toReversed().map((e) => el('tr', {},
    el('td', { class: 't' }, clock(e.time)), el('td', { class: 'wrap' }, e.pod ? podButton(e.namespace, e.pod) : ''),
    el('td', {}, e.what), el('td', { class: 'wrap' }, details(e)))));
}

// plot draws lines over the last hour.
function plot(title, samples, lines, unit) {
  const known = document.querySelector('#plots figure');
  const width = (known && known.clientWidth) || 340, height = 150, left = 46, bottom = 20, top = 8;
  const end = samples.length ? Date.parse(samples[samples.length - 1].time) : Date.now();
  const begin = Math.min(end - 300000, samples.length ? Date.parse(samples[0].time) : end);
  const values = samples.flatMap((s) => lines.map((l) => l.of(s)).filter((v) => v !== undefined));
  const high = nice(Math.max(0, ...values));
  const x = (t) => left + (width - left - 6) * (t - begin) / (end - begin);
  const y = (v) => height - bottom - (height - bottom - top) * v / high;
  const last = lines.map((l) => {
    const s = samples.findLast((one) => l.of(one) !== undefined);
    return l.name + ' ' + (s ? unit(l.of(s)) : 'nothing yet');
  }).join(', ');
  const picture = svg('svg', { class: 'plot', viewBox: '0 0 ' + width + ' ' + height, role: 'img', 'aria-label': title + ': ' + last + '; at most ' + unit(Math.max(0, ...values)) });
  for (const v of [0, high / 2, high]) {
    picture.append(svg('line', { x1: left, x2: width - 6, y1: y(v), y2: y(v) }));
    const label = svg('text', { x: left - 5, y: y(v) + 4, 'text-anchor': 'end' });
    label.textContent = unit(v);
    picture.append(label);
  }
  for (const [t, anchor] of [[begin, 'start'], [end, 'end']]) {
    const label = svg('text', { x: x(t), y: height - 5, 'text-anchor': anchor });
    label.textContent = clock(t);
    picture.append(label);
  }
  lines.forEach((l, i) => {
    let d = '', pen = false, before = 0;
    for (const s of samples) {
      const v = l.of(s), t = Date.parse(s.time);
      if (v === undefined) { if (!l.sparse) pen = false; continue; }
      if (t - before > 60000 && !l.sparse) pen = false;
      d += (pen ? 'L' : 'M') + x(t).toFixed(1) + ' ' + y(v).toFixed(1);
      if (l.sparse) picture.append(svg('circle', { class: 'p' + (i + 1), cx: x(t).toFixed(1), cy: y(v).toFixed(1), r: 2.2 }));
      pen = true;
      before = t;
    }
    picture.append(svg('path', { class: 'p' + (i + 1), d }));
  });
  return el('figure', {}, el('figcaption', {}, title), picture,
    el('p', { class: 'legend' }, ...lines.map((l, i) => el('span', { class: 'key p' + (i + 1) }, l.name))));
}

function nice(v) {
  if (v <= 0) return 1;
  const scale = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].find((n) => n * scale >= v) * scale;
}

function showSeries(series) {
  const s = series.items;
  $('plots').replaceChildren(
    plot('Launch latency, claim to bound', s, [{ name: 'p50', of: (x) => x.launchP50, sparse: true }, { name: 'p90', of: (x) => x.launchP90, sparse: true }], length),
    plot('Tasks a second', s, [{ name: 'launched', of: (x) => x.launchesPerSecond }, { name: 'ended', of: (x) => x.endsPerSecond }], number),
    plot('Pods and offers', s, [{ name: 'running', of: (x) => x.running }, { name: 'waiting', of: (x) => x.waiting }, { name: 'offers', of: (x) => x.offers }], number),
    plot('CPUs', s, [{ name: 'held by tasks', of: (x) => x.runningCpus }, { name: 'claimed', of: (x) => x.claimedCpus }, { name: 'offered', of: (x) => x.offeredCpus }], number));
}

async function showPod() {
  const wanted = new URLSearchParams(location.hash.slice(1)).get('pod');
  if (!wanted) { if ($('pod').open) $('pod').close(); return; }
  const [namespace, name] = wanted.split('/');
  let p;
  try {
    p = await ask('pods/' + encodeURIComponent(namespace) + '/' + encodeURIComponent(name || ''));
  } catch (e) {
    p = { summary: e.message, steps: [] };
  }
  if (new URLSearchParams(location.hash.slice(1)).get('pod') !== wanted) return;
  $('pod-title').textContent = wanted;
  $('pod-summary').textContent = p.summary;
  const body = [];
  if (p.need && (p.need.cpus || p.need.mem)) body.push(el('p', {}, 'Needs ' + amounts(p.need) + (p.ports ? ', ports ' + p.ports.join(', ') : '') + ' as Mesos role ' + p.role + '.'));
  if (p.steps.length) {
    let before = p.created ? Date.parse(p.created) : undefined;
    body.push(el('h3', {}, 'Journey'), table(['Time', 'After', 'Step', 'Details'], p.steps.map((s) => {
      const t = Date.parse(s.time), after = before === undefined ? '' : '+' + length((t - before) / 1000);
      before = t;
      return el('tr', {}, el('td', { class: 't' }, clock(s.time)), el('td', { class: 't' }, after), el('td', { class: colours[s.state] }, s.what === 'state' ? s.state : s.what),
        el('td', { class: 'wrap' }, details({ ...s, state: '' })));
    })));
    if (p.omittedSteps) body.push(el('p', { class: 'none' }, p.omittedSteps + ' steps in the middle are left out.'));
  }
  if (p.verdicts) {
    body.push(el('h3', {}, 'What each node lacks'), table(['Node', 'Verdict', 'Free', 'Offered', 'Last offer'], p.verdicts.slice(0, mostRows).map((v) => {
      const rules = v.matches ? '' : 'the pod’s selector, affinity or tolerations exclude it';
      return el('tr', {}, el('td', {}, v.node), el('td', { class: v.fits && v.matches ? 'good' : 'doubt' }, [v.why || (v.matches ? 'fits' : ''), rules].filter(Boolean).join('; ')),
        el('td', {}, amounts(v.free)), el('td', {}, amounts(v.offered)),
        el('td', {}, v.lastOfferedAt ? amounts(v.lastOffered) + ', ' + since(v.lastOfferedAt) + ' ago' : 'none'));
    })));
  }
  $('pod-body').replaceChildren(...body);
  if (!$('pod').open) $('pod').showModal();
}

function table(header, rows) {
  const made = el('table', {}, el('thead', {}, el('tr', {}, ...header.map((h) => el('th', { scope: 'col' }, h)))), el('tbody', {}, ...rows));
  label(made, rows);
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': header.join(', ') }, made);
}

async function look() {
  if (state.busy) return;
  state.busy = true;
  try {
    const [status, agents, pods, tasks, events, series] = await Promise.all([
      ask('status'), ask('agents'), ask('pods?limit=' + mostRows), ask('tasks'), ask('events?limit=150&after=' + state.seq), ask('series'),
    ]);
    if (state.started && state.started !== status.started) { state.seq = 0; state.events = []; }
    state.started = status.started;
    state.agents = agents.items;
    state.tasks = tasks;
    showStatus(status);
    showAgents();
    showWaiting(pods);
    showTasks();
    showEvents(events);
    showSeries(series);
    if ($('pod').open) await showPod();
    document.body.dataset.ready = 'yes';
  } catch (e) {
    $('phase').textContent = 'no answer';
    $('phase').className = 'badge bad';
    $('problem').hidden = false;
    $('problem').textContent = 'The scheduler does not answer: ' + e.message;
  } finally {
    state.busy = false;
  }
}

function pause() {
  state.paused = !state.paused;
  $('pause').setAttribute('aria-pressed', String(state.paused));
  $('pause').textContent = state.paused ? 'Go on' : 'Pause';
}

function theme(next) {
  const order = ['auto', 'dark', 'light'];
  let now = 'auto';
  try { now = localStorage.getItem('theme') || 'auto'; } catch { /* no storage: the choice lasts as long as the page */ }
  if (next) now = order[(order.indexOf(document.documentElement.dataset.theme || 'auto') + 1) % order.length];
  if (now === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = now;
  try { localStorage.setItem('theme', now); } catch { /* as above */ }
  $('theme').textContent = 'Theme: ' + now;
}

$('pause').addEventListener('click', pause);
$('theme').addEventListener('click', () => theme(true));
$('agent-filter').addEventListener('input', showAgents);
$('pod-filter').addEventListener('input', showTasks);
$('pod').addEventListener('close', () => { if (location.hash) history.replaceState(null, '', location.pathname + location.search); });
window.addEventListener('hashchange', showPod);
document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || $('pod').open) return;
  const does = { '/': () => $('agent-filter').focus(), f: () => $('pod-filter').focus(), p: pause, t: () => theme(true) }[e.key];
  if (does) { e.preventDefault(); does(); }
});
theme(false);
look().then(showPod);
setInterval(() => { if (!state.paused && !document.hidden) look(); }, every);
