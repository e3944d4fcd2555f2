// Text of a model as DOM nodes: paragraphs, headings, lists, tables, quotes, code, emphasis, links. Everything becomes
// text nodes; no HTML of the model is ever parsed.

function element(tag, ...children) {
  const out = document.createElement(tag);
  out.append(...children);
  return out;
}

const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)/g;

function inline(text) {
  const out = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    out.push(text.slice(end, found.index));
    if (found[2] !== undefined) out.push(element("code", found[2]));
    else if (found[3] !== undefined) out.push(element("strong", ...inline(found[3])));
    else if (found[4] !== undefined) out.push(element("em", ...inline(found[4])));
    else {
      const link = element("a", found[5]);
      link.href = found[6];
      link.rel = "noreferrer noopener";
      link.target = "_blank";
      out.push(link);
    }
    end = found.index + found[0].length;
  }
  out.push(text.slice(end));
  return out;
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

function table(lines) {
  const out = element("table");
  lines.forEach((line, row) => {
    if (row === 1) return;
    out.append(element("tr", ...cells(line).map((cell) => element(row === 0 ? "th" : "td", ...inline(cell)))));
  });
  return out;
}

function list(lines) {
  const ordered = /^\s*\d/.test(lines[0]);
  const out = element(ordered ? "ol" : "ul");
  for (const line of lines) {
    const item = line.match(/^\s*(?:[-*+]|\d+[.)])\s+(.*)$/);
    if (item) out.append(element("li", ...inline(item[1])));
    else out.lastChild.append("\n", ...inline(line.trim()));
  }
  return out;
}

const KINDS = [
  { begins: /^\s*(?:[-*+]|\d+[.)])\s+/, goes: /^\s+\S|^\s*(?:[-*+]|\d+[.)])\s+/, make: list },
  { begins: /^>/, goes: /^>/, make: (lines) => element("blockquote", ...blocks(lines.map((line) => line.replace(/^> ?/, "")))) },
  { begins: /^#{1,6}\s/, goes: /$^/, make: ([line]) => element("h" + Math.min(6, line.match(/^#+/)[0].length + 2), ...inline(line.replace(/^#+\s/, ""))) },
];

function blocks(lines) {
  const out = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const fence = line.match(/^\s*(```+|~~~+)/);
    if (line.trim() === "") { at += 1; continue; }
    if (fence) {
      let end = at + 1;
      while (end < lines.length && !lines[end].trim().startsWith(fence[1])) end += 1;
      out.push(element("pre", element("code", lines.slice(at + 1, end).join("\n"))));
      at = end + 1;
      continue;
    }
    if (line.includes("|") && /^\s*\|?[\s:|-]*-[\s:|-]*$/.test(lines[at + 1] ?? "")) {
      let end = at + 2;
      while (end < lines.length && lines[end].includes("|")) end += 1;
      out.push(table(lines.slice(at, end)));
      at = end;
      continue;
    }
    const kind = KINDS.find((one) => one.begins.test(line));
    let end = at + 1;
    if (kind) {
      while (end < lines.length && kind.goes.test(lines[end])) end += 1;
      out.push(kind.make(lines.slice(at, end)));
    } else {
      while (end < lines.length && lines[end].trim() !== "" && !KINDS.some((one) => one.begins.test(lines[end])) &&
             !/^\s*(```|~~~)/.test(lines[end])) end += 1;
      out.push(element("p", ...inline(lines.slice(at, end).join("\n"))));
    }
    at = end;
  }
  return out;
}

/** The nodes that `text` means. */
export function markdown(text) {
  return blocks(text.split("\n"));
}
