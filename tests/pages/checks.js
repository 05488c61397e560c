// Checks of a page, which check.py runs in the browser. Each returns a list of sentences; an empty list is a pass.
(() => {
  const LEAST = 4.5;
  const shown = (element) =>
    element.checkVisibility({ contentVisibilityAuto: true, opacityProperty: true, visibilityProperty: true });
  const brief = (element) => {
    const words = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 50);
    return `<${element.tagName.toLowerCase()}> "${words}"`;
  };
  const own = (element) =>
    [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  // Texts that a reader sees; titles in plots are seen only under a pointer.
  const texts = () =>
    [...document.body.querySelectorAll("*")].filter(
      (one) => !["title", "desc", "style", "script"].includes(one.tagName.toLowerCase()) && own(one) && shown(one),
    );
  const plots = () => [...document.querySelectorAll("svg")].filter(shown);

  const parse = (colour) => {
    const numbers = colour.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    return numbers.length < 4 ? [...numbers.slice(0, 3), 1] : numbers;
  };
  const over = (front, back) => [...[0, 1, 2].map((at) => front[at] * front[3] + back[at] * (1 - front[3])), 1];
  const luminance = (colour) => {
    const [red, green, blue] = colour.slice(0, 3).map((part) => {
      const value = part / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const ratio = (one, other) => {
    const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const ancestors = (element) => (element ? [element, ...ancestors(element.parentElement)] : []);
  // Paper is white, and browsers print no backgrounds.
  const ground = (element) =>
    matchMedia("print").matches
      ? [255, 255, 255, 1]
      : ancestors(element)
          .reverse()
          .map((one) => parse(getComputedStyle(one).backgroundColor))
          .reduce((back, front) => over(front, back), [255, 255, 255, 1]);
  const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);

  const contrast = () =>
    texts().flatMap((element) => {
      const style = getComputedStyle(element);
      const front = parse(element instanceof SVGElement ? style.fill : style.color);
      front[3] *= ancestors(element).reduce((product, one) => product * Number(getComputedStyle(one).opacity), 1);
      const back = ground(element);
      const found = ratio(over(front, back), back);
      return found < LEAST ? [`the contrast of ${brief(element)} is ${found.toFixed(2)}, below ${LEAST}`] : [];
    });

  // Elements beyond the window, other than in a region that scrolls by itself.
  const wide = () =>
    [...document.body.querySelectorAll("*")].filter(shown).flatMap((element) => {
      const box = element.getBoundingClientRect();
      const free = !ancestors(element.parentElement).some((one) => one !== document.body && scrolls(one));
      const beyond = box.right > innerWidth + 1 || box.left < -1;
      return free && beyond && box.width ? [`${brief(element)} reaches from ${box.left} to ${box.right}`] : [];
    });

  // A region that scrolls on a screen is cut on paper.
  const cut = () =>
    [...document.querySelectorAll("*")]
      .filter((one) => shown(one) && one !== document.documentElement && one !== document.body)
      .filter((one) => getComputedStyle(one).overflowX !== "visible" && one.scrollWidth > one.clientWidth + 1)
      .map((one) => `${brief(one)} is cut on paper`);

  const meet = (one, other) =>
    Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1 &&
    Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 1;
  // The line boxes of two texts may touch; letters have a fifth of the height less.
  const letters = (element) => {
    const box = element.getBoundingClientRect();
    const less = box.height / 10;
    return { left: box.left, right: box.right, top: box.top + less, bottom: box.bottom - less };
  };
  const overlaps = () =>
    plots().flatMap((plot) => {
      const labels = [...plot.querySelectorAll("text")].map((text) => [text, letters(text)]);
      const bars = [...plot.querySelectorAll("rect.bar")].map((bar) => [bar, bar.getBoundingClientRect()]);
      const frame = plot.getBoundingClientRect();
      const outside = (box) =>
        box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
      return labels.flatMap(([text, box], at) => [
        ...(outside(box) ? [`${brief(text)} is outside of its plot`] : []),
        ...[...labels.slice(at + 1), ...bars]
          .filter(([, other]) => meet(box, other))
          .map(([other]) => `${brief(text)} overlaps ${brief(other)}`),
      ]);
    });

  const names = () => {
    const found = [];
    if (!document.documentElement.lang) found.push("<html> has no lang");
    if (!document.title.trim()) found.push("the page has no title");
    if (document.querySelectorAll("h1").length !== 1) found.push("the page does not have exactly one <h1>");
    if (!document.querySelector("meta[name=viewport]")) found.push("the page has no viewport");
    const named = (one) =>
      one.getAttribute("alt") ||
      one.getAttribute("aria-label") ||
      (one.getAttribute("aria-labelledby") || "").split(" ").some((id) => document.getElementById(id)?.textContent.trim());
    for (const one of document.querySelectorAll("img, svg")) {
      if (!named(one)) found.push(`<${one.tagName}> has no text for a screen reader`);
      if (one.tagName === "svg" && one.getAttribute("role") !== "img") found.push("<svg> has no role");
    }
    for (const id of [...document.querySelectorAll("[id]")].map((one) => one.id)) {
      if (document.querySelectorAll(`[id="${CSS.escape(id)}"]`).length > 1) found.push(`the id ${id} is not unique`);
    }
    for (const head of document.querySelectorAll("th:not([scope])")) found.push(`${brief(head)} has no scope`);
    return found;
  };

  const closed = () =>
    [...document.querySelectorAll("details")].flatMap((fold) =>
      [...fold.children]
        .filter((part) => part.tagName !== "SUMMARY" && !shown(part))
        .map(() => `${brief(fold.querySelector("summary"))} is closed on paper`),
    );

  const open = (value) => document.querySelectorAll("details").forEach((fold) => (fold.open = value));
  const reachable = () => {
    const all = [...document.querySelectorAll("summary, a[href], [tabindex='0']")].filter(shown);
    all.forEach((one, at) => (one.dataset.stop = at));
    return all.map((one) => ({ words: brief(one), look: look(one) }));
  };
  const look = (one) => {
    const style = getComputedStyle(one);
    const line = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
    const seen = line && ratio(parse(style.outlineColor), ground(one)) >= 3;
    return `${seen} ${style.boxShadow}`;
  };
  // The number of the focused stop and how it looks.
  const focused = () => {
    const one = document.activeElement;
    return { stop: one?.dataset?.stop === undefined ? -1 : Number(one.dataset.stop), look: look(one) };
  };
  window.checks = { contrast, wide, cut, overlaps, names, closed, open, reachable, focused };
})();
