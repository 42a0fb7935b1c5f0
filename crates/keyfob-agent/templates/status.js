// Follows the agent: replaces the parts of the page that changed, and keeps relative times up to date.
'use strict';
(() => {
  const root = document.documentElement;
  const connection = document.getElementById('connection');
  const pause = document.getElementById('pause');
  // The clock of the node counts, not that of whoever looks.
  let ahead = Date.parse(root.dataset.now) - Date.now();
  let source;
  let retry;

  function rounded(seconds) {
    const minutes = Math.floor(seconds / 60);
    const hours = Math.floor(minutes / 60);
    const days = Math.floor(hours / 24);
    if (days > 0) return `${days} d ${hours % 24} h`;
    if (hours > 0) return `${hours} h ${minutes % 60} min`;
    if (minutes >= 10) return `${minutes} min`;
    if (minutes > 0) return `${minutes} min ${seconds % 60} s`;
    return `${seconds} s`;
  }

  function relative(time) {
    const seconds = Math.trunc((Date.parse(time) - (Date.now() + ahead)) / 1000);
    if (Number.isNaN(seconds)) return time;
    if (seconds === 0) return 'now';
    return seconds > 0 ? `in ${rounded(seconds)}` : `${rounded(-seconds)} ago`;
  }

  function tellTimes(within) {
    for (const time of within.querySelectorAll('time[datetime]')) {
      const text = relative(time.dateTime);
      if (time.textContent !== text) time.textContent = text;
      if (time.title !== time.dateTime) time.title = time.dateTime;
    }
  }

  // Changes only what differs, so that the focus, open details and the place where somebody reads stay.
  function morph(from, to) {
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
      from.replaceWith(to);
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    for (const { name } of [...from.attributes]) {
      if (name !== 'open' && !to.hasAttribute(name)) from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
    const old = [...from.childNodes];
    const wanted = [...to.childNodes];
    wanted.forEach((node, index) => {
      if (index < old.length) morph(old[index], node);
      else from.append(node);
    });
    old.slice(wanted.length).forEach((node) => node.remove());
  }

  function update(event) {
    const { now, title, sections } = JSON.parse(event.data);
    ahead = Date.parse(now) - Date.now();
    document.title = title;
    for (const [id, html] of Object.entries(sections)) {
      const section = document.getElementById(id);
      if (!section) continue;
      const wanted = section.cloneNode(false);
      wanted.innerHTML = `\n${html}\n`;
      tellTimes(wanted);
      morph(section, wanted);
    }
  }

  function tell(text, state) {
    connection.textContent = text;
    connection.dataset.state = state;
  }

  function follow() {
    clearTimeout(retry);
    source = new EventSource('/events');
    source.addEventListener('open', () => tell('Live', 'live'));
    source.addEventListener('sections', update);
    source.addEventListener('error', () => {
      tell('No connection to the agent; trying again', 'lost');
      // A browser does not try again by itself after an answer that is no stream.
      if (source.readyState === EventSource.CLOSED) retry = setTimeout(follow, 5000);
    });
  }

  pause.addEventListener('click', () => {
    const paused = pause.getAttribute('aria-pressed') === 'true';
    pause.setAttribute('aria-pressed', String(!paused));
    if (paused) {
      follow();
    } else {
      clearTimeout(retry);
      source.close();
      tell('Paused', 'paused');
    }
  });

  pause.setAttribute('aria-pressed', 'false');
  document.getElementById('live').hidden = false;
  tellTimes(document);
  setInterval(() => tellTimes(document), 1000);
  follow();
})();
