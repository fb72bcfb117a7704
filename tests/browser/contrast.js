// The body of a function: every visible text of the page whose contrast is below 4.5 to 1 (WCAG 2.2).
const parse = (colour) => {
  const numbers = colour.match(/[\d.]+/g).map(Number);
  return numbers.length < 4 ? [...numbers, 1] : numbers;
};
const luminance = (colour) => {
  const [red, green, blue] = colour
    .slice(0, 3)
    .map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = parse(getComputedStyle(e).backgroundColor);
    if (colour[3] === 1) return colour;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0, 1] : [255, 255, 255, 1];
};
const low = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !element.checkVisibility() || element.closest(".skip, .hidden, svg")) continue;
  const pair = [luminance(parse(getComputedStyle(element).color)), luminance(ground(element))];
  const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  if (ratio < 4.5) low.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
}
return low;
