// What a person would see as broken: text that is cut, leaves its place, or lies on other text.
() => {
  const found = [];
  const told = (what, node) => found.push(`${what}: ${node.textContent.trim().slice(0, 60)}`);
  const seen = (node) => node.getClientRects().length > 0;
  if (document.documentElement.scrollWidth > innerWidth + 1) found.push('the page scrolls sideways');
  const textBox = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return range.getBoundingClientRect();
  };
  const inside = (inner, outer, slack) =>
    inner.left >= outer.left - slack && inner.right <= outer.right + slack &&
    inner.top >= outer.top - slack && inner.bottom <= outer.bottom + slack;
  for (const node of document.querySelectorAll('td, th, .fact, .note, .button, .badge, h1, h2, h3')) {
    if (seen(node) && node.textContent.trim() && !inside(textBox(node), node.getBoundingClientRect(), 2))
      told('text leaves its place', node);
  }
  for (const picture of document.querySelectorAll('svg[role=img]')) {
    if (!seen(picture)) continue;
    const frame = picture.getBoundingClientRect();
    const placed = [];
    for (const text of picture.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      if (!inside(box, frame, 3)) told('text leaves its picture', text);
      for (const [other, node] of placed) {
        const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (wide > 2 && high > 4) found.push(`text on text: ${text.textContent} / ${node.textContent}`);
      }
      placed.push([box, text]);
    }
    if (!picture.getAttribute('aria-label')) told('a picture without a text', picture);
  }
  for (const scroll of document.querySelectorAll('.scroll')) {
    const more = scroll.previousElementSibling;
    if (seen(scroll) && scroll.querySelector('table') && scroll.scrollWidth > scroll.clientWidth + 12)
      if (!more || !more.classList.contains('more') || !seen(more)) told('hides columns and does not say so', scroll);
  }
  return found;
}
