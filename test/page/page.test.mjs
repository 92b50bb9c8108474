// SPDX-License-Identifier: Apache-2.0
//
// Tests the scheduler's web page in a real Chromium against a scheduler on loopback that has one pod that waits
// (default/too-large) and one that runs (default/fits): hack/page.sh makes them. Pictures go to $OUT.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

const base = process.env.URL, out = process.env.OUT;
mkdirSync(out, { recursive: true });
let browser;
before(async () => { browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] }); });
after(() => browser.close());

// open opens the page and fails the test on any error in it and on any request to elsewhere.
async function open(t, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const problems = [];
  page.on('pageerror', (e) => problems.push(e.message));
  page.on('console', (m) => { if (m.type() === 'error') problems.push(m.text()); });
  page.on('request', (r) => { if (!r.url().startsWith(base) && !r.url().startsWith('data:')) problems.push('asks ' + r.url()); });
  t.after(async () => {
    await context.close();
    assert.deepEqual(problems.filter((p) => !t.expected?.(p)), []);
  });
  await page.goto(base + '/mesos/');
  await page.locator('body[data-ready=yes]').waitFor();
  return page;
}

test('shows what the scheduler does', async (t) => {
  const page = await open(t, { viewport: { width: 1400, height: 1000 }, colorScheme: 'light' });
  await page.locator('#phase', { hasText: 'subscribed' }).waitFor();
  await page.locator('#waiting tbody tr', { hasText: 'default/too-large' }).waitFor();
  assert.match(await page.locator('#waiting tbody').innerText(), /Insufficient cpus in Mesos offers[\s\S]*asks for cpus:64/);
  await page.locator('#tasks tbody tr', { hasText: 'default/fits' }).waitFor();
  assert.equal(await page.locator('#agents tbody tr').count(), 3);
  assert.ok(await page.locator('#agents .bar .running').count() >= 1);
  assert.equal(await page.locator('svg.plot').count(), 4);
  assert.ok(await page.locator('#events tbody tr').count() >= 3);
  assert.match(await page.locator('#args').textContent(), /failoverTimeout/);
  await page.screenshot({ path: out + '/light.png', fullPage: true });
});

test('is live', async (t) => {
  const page = await open(t, {});
  const shown = await page.locator('#about').innerText();
  await page.waitForFunction((before) => document.getElementById('about').innerText !== before, shown);
});

test('tells a pod\'s journey and each node\'s verdict, by keyboard alone', async (t) => {
  const page = await open(t, { viewport: { width: 1200, height: 900 } });
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'agent-filter');
  await page.keyboard.type('host-2');
  assert.equal(await page.locator('#agents tbody tr').count(), 1);
  await page.keyboard.press('Escape');
  await page.locator('#main').focus();
  await page.locator('#waiting button', { hasText: 'default/too-large' }).focus();
  await page.waitForTimeout(5000); // the focus must survive two refreshes
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'default/too-large');
  await page.keyboard.press('Enter');
  const dialog = page.locator('dialog[open]');
  await dialog.waitFor();
  const text = await dialog.innerText();
  for (const want of ['default/too-large', 'waiting', 'host-1', 'host-2', 'host-3', 'Insufficient cpus']) assert.ok(text.includes(want), want);
  await page.screenshot({ path: out + '/pod.png' });
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  assert.equal(await page.evaluate(() => location.hash), '');
});

test('opens a pod by its address', async (t) => {
  const page = await open(t, {});
  await page.goto(base + '/mesos/#pod=default%2Ffits');
  await page.locator('dialog[open]', { hasText: 'bound' }).waitFor();
  assert.match(await page.locator('dialog[open]').innerText(), /Running/);
});

test('is dark where the system is, and by choice', async (t) => {
  const page = await open(t, { colorScheme: 'dark', viewport: { width: 1400, height: 1000 } });
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await background();
  assert.equal(dark, 'rgb(18, 22, 28)');
  await page.screenshot({ path: out + '/dark.png', fullPage: true });
  await page.keyboard.press('t');
  assert.equal(await background(), dark);
  await page.keyboard.press('t');
  assert.notEqual(await background(), dark);
  await page.reload();
  await page.locator('body[data-ready=yes]').waitFor();
  assert.notEqual(await background(), dark, 'the choice is remembered');
});

test('can be read on a phone', async (t) => {
  const page = await open(t, { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 });
  const [wide, inner] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert.ok(wide <= inner, 'the page is ' + wide + ' wide on a screen of ' + inner);
  await page.screenshot({ path: out + '/phone.png', fullPage: true });
  await page.locator('#waiting button').first().tap();
  await page.locator('dialog[open]').waitFor();
  await page.screenshot({ path: out + '/phone-pod.png' });
});

for (const colorScheme of ['light', 'dark']) {
  test('texts stand out from their ground: ' + colorScheme, async (t) => {
    const page = await open(t, { colorScheme, viewport: { width: 1400, height: 1000 } });
    const low = await page.evaluate(() => {
      const rgb = (c) => (c.match(/[\d.]+/g) || []).map(Number);
      const lum = (c) => rgb(c).slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((n, v, i) => n + v * [0.2126, 0.7152, 0.0722][i], 0);
      const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; const v = rgb(c); if (v.length < 4 || v[3] > 0) return c; } return 'rgb(255,255,255)'; };
      const found = new Set();
      for (const e of document.querySelectorAll('body *')) {
        if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility() || e.closest('svg,.hidden,.skip')) continue;
        const [a, b] = [lum(getComputedStyle(e).color), lum(ground(e))].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) found.add(e.tagName + '.' + e.className + ' ' + ratio.toFixed(2) + ' ' + e.textContent.slice(0, 30));
      }
      return [...found];
    });
    assert.deepEqual(low, []);
  });
}

test('every control has a name, and every picture one', async (t) => {
  const page = await open(t, {});
  const nameless = await page.evaluate(() => [...document.querySelectorAll('button,input,[role=img],[role=region],dialog')].filter((e) =>
    !(e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.closest('label'))).map((e) => e.outerHTML.slice(0, 80)));
  assert.deepEqual(nameless, []);
});

test('says when the scheduler does not answer, and comes back', async (t) => {
  t.expected = (p) => p.includes('Failed to load resource') || p.includes('ERR_FAILED');
  const page = await open(t, {});
  await page.route('**/v1/**', (r) => r.abort());
  await page.locator('#problem', { hasText: 'does not answer' }).waitFor();
  await page.unroute('**/v1/**');
  await page.locator('#phase', { hasText: 'subscribed' }).waitFor();
  await page.locator('#problem').waitFor({ state: 'hidden' });
});

test('names are texts, whatever they hold', async (t) => {
  const page = await open(t, {});
  await page.route('**/v1/pods?*', async (r) => {
    const response = await r.fetch(), list = await response.json();
    list.items.push({ ...list.items[0], name: '<img src=x onerror=alert(1)>', message: '<b>bold</b>' });
    await r.fulfill({ response, json: list });
  });
  await page.locator('#waiting tbody', { hasText: '<img src=x onerror=alert(1)>' }).waitFor();
  assert.equal(await page.locator('#waiting tbody img, #waiting tbody b').count(), 0);
});
