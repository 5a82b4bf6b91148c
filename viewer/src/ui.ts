// The controls around the picture. Names, ids and units are text, never HTML.

import { VIEWS } from "./camera.ts";
import { describe, MODES } from "./measure.ts";
import { MAPS, paletteColour, sampleMap } from "./colour.ts";
import { formOf, storeOf, type Fault } from "./pool.ts";
import type { Picked, Scene } from "./scene.ts";
import type { ColourBy, State } from "./state.ts";

export interface Actions {
  patch(patch: Record<string, unknown>): Promise<void>;
  select(kind: string, object: string): Promise<void>;
  centre(position: number[]): void;
  frameAll(): void;
  screenshot(): void;
  saveView(): void;
  retry(): void;
}

const byId = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;

type Child = Node | string;

type Handler = (event: any) => void;

/** What elements do on events: a control that is updated in place gets other handlers, and keeps its listeners. */
const handlers = new WeakMap<Element, Map<string, Handler>>();
/** Controls that are being typed into: their text is not replaced. */
const edited = new WeakSet<Element>();

function listen(element: Element, name: string, handler: Handler): void {
  let own = handlers.get(element);
  if (!own) handlers.set(element, (own = new Map()));
  if (!own.has(name)) element.addEventListener(name, (event) => handlers.get(element)!.get(name)?.(event));
  own.set(name, handler);
}

function make<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Record<string, string | boolean | number | Handler> = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") listen(element, name, value);
    else if (typeof value === "boolean") { if (value) element.setAttribute(name, ""); }
    else element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

const keyOf = (node: Node): string => (node instanceof Element ? `${node.tagName} ${node.getAttribute("type") ?? ""} ${node.getAttribute("data-key") ?? ""}` : String(node.nodeType));

/** Makes the children of an element as those of another one. What is there stays where it can: it may be in the hand. */
export function morphChildren(old: Element, next: Element): void {
  let at: ChildNode | null = old.firstChild;
  for (const child of [...next.childNodes]) {
    let same: ChildNode | null = at;
    while (same && keyOf(same) !== keyOf(child)) same = same.nextSibling;
    if (!same) { old.insertBefore(child, at); continue; }
    while (at && at !== same) { const gone: ChildNode = at; at = at.nextSibling; gone.remove(); }
    if (same instanceof Element) morph(same, child as Element);
    else if (same.nodeValue !== child.nodeValue) same.nodeValue = child.nodeValue;
    at = same.nextSibling;
  }
  while (at) { const gone: ChildNode = at; at = at.nextSibling; gone.remove(); }
}

function morph(old: Element, next: Element): void {
  const isOurs = (name: string) => name !== "open"; // sections are opened by hand
  for (const name of old.getAttributeNames()) if (isOurs(name) && !next.hasAttribute(name)) old.removeAttribute(name);
  for (const name of next.getAttributeNames()) if (isOurs(name) && old.getAttribute(name) !== next.getAttribute(name)) old.setAttribute(name, next.getAttribute(name)!);
  const own = handlers.get(old), others = handlers.get(next);
  for (const name of own?.keys() ?? []) if (!others?.has(name)) own!.delete(name);
  for (const [name, handler] of others ?? []) listen(old, name, handler);
  morphChildren(old, next);
  if (old instanceof HTMLInputElement && next instanceof HTMLInputElement) {
    old.checked = next.checked;
    if (old.value !== next.value && !edited.has(old)) old.value = next.value;
  } else if (old instanceof HTMLSelectElement && next instanceof HTMLSelectElement) {
    if (old.value !== next.value) old.value = next.value;
  } else if (old instanceof HTMLCanvasElement && next instanceof HTMLCanvasElement) {
    old.width = next.width; old.height = next.height;
    old.getContext("2d")!.drawImage(next, 0, 0);
  }
}

const row = (label: string, control: HTMLElement): HTMLElement => { control.setAttribute("aria-label", control.getAttribute("aria-label") ?? label); return make("label", { class: "row", "data-key": `${label} ${control.tagName} ${control.getAttribute("type") ?? ""}` }, make("span", {}, label), control); };
const button = (text: string, click: () => void, title = text) => make("button", { type: "button", title, click }, text);
const check = (label: string, checked: boolean, change: (on: boolean) => void) => row(label, make("input", { type: "checkbox", checked, change: (event: Event) => change((event.target as HTMLInputElement).checked) }));
const slider = (label: string, value: number, min: number, max: number, step: number, input: (value: number) => void) => row(label, make("input", { type: "range", min, max, step, value, input: (event: Event) => input(Number((event.target as HTMLInputElement).value)) }));
const choice = (label: string, value: string, options: [string, string][], change: (value: string) => void) => {
  const select = make("select", { change: (event: Event) => change((event.target as HTMLSelectElement).value) }, ...options.map(([key, text]) => make("option", { value: key, selected: key === value }, text)));
  return row(label, select);
};
const section = (title: string, open: boolean, ...children: Child[]) => make("details", { open, "data-key": title }, make("summary", {}, title), ...children);

export const TITLES: Record<string, string> = { point_cloud: "Points", line: "Lines", polyline: "Polylines", streamline: "Streamlines", graph: "Graph", skeleton: "Skeletons", mesh: "Meshes" };

/** What a kind is called, with its store where there are several. */
const titleOf = (kind: string) => (storeOf(kind) ? `${storeOf(kind)}: ` : "") + (TITLES[formOf(kind)] ?? formOf(kind));

/** Brings the panel in line with the state. Controls stay, with the focus and in the hand. */
export function updatePanel(scene: Scene, actions: Actions): void {
  const panel = byId("panel"), { info } = scene, missing = scene.missing(), next = document.createElement("aside");
  if (!panel.childElementCount) {
    const isTyped = (event: Event) => event.target instanceof HTMLInputElement && ["text", "number", "search"].includes(event.target.type);
    panel.addEventListener("input", (event) => { if (isTyped(event)) edited.add(event.target as Element); }, true);
    for (const name of ["change", "focusout"]) panel.addEventListener(name, (event) => edited.delete(event.target as Element), true);
    panel.addEventListener("toggle", () => updatePanel(scene, actions), true); // some sections are filled once they are open
  }
  next.append(
    ...info.kinds.map(({ kind }) => layerSection(scene, actions, kind, info.kinds.length < 4)),
    section("Objects", false, ...(isOpen("Objects") ? objectControls(scene, actions) : [])),
    section("Measure", scene.state.measure.mode !== "off", ...measureControls(scene, actions)),
    section("Filter and clip", false, ...filterControls(scene, actions)),
    ...(info.axes.length > 3 ? [section("Axes", true, ...axisControls(scene, actions))] : []),
    section("View", false, ...viewControls(scene.state, actions)),
    section("Detail", false, ...detailControls(scene, actions)),
    // Hosts without a listing are usual: what they hide is said here.
    ...(missing.length ? [section("What may be missing", false, ...missing.map((text) => make("p", { class: "note" }, text)))] : []),
  );
  morphChildren(panel, next);
}

const isOpen = (title: string): boolean => [...byId("panel").children].some((one) => one.getAttribute("data-key") === title && (one as HTMLDetailsElement).open);

function layerSection(scene: Scene, actions: Actions, kind: string, open: boolean): HTMLElement {
  const layer = scene.state.layers[kind], info = scene.info.kinds.find((one) => one.kind === kind)!, { colour } = layer;
  const patch = (change: Record<string, unknown>) => void actions.patch({ layers: { [kind]: change } });
  const options: [string, string][] = [["constant", "One colour"], ["object", "Object"], ["group", "Group"], ["direction", "Direction"], ["depth", "Depth"]];
  if (formOf(kind) === "point_cloud") options.splice(3, 1);
  if (!scene.info.groups) options.splice(2, 1);
  const chosen = colour.by === "attribute" ? `${colour.scope ?? "vertex"}:${colour.attribute}` : colour.by;
  for (const attribute of info.attributes) options.push([`${attribute.scope}:${attribute.name}`, attribute.scope === "object" ? `${attribute.name} (object)` : attribute.name]);
  for (const axis of scene.state.space.shown) options.push([`axis:${scene.info.axes[axis].name}`, `${scene.info.axes[axis].name} (axis)`]);
  const plain = { range: null, categories: null, hidden: [] };
  const pick = (value: string) => {
    const [scope, ...name] = value.split(":");
    patch({ colour: name.length ? { ...plain, by: "attribute", scope, attribute: name.join(":") } : { ...plain, by: value as ColourBy, attribute: null, scope: null } });
  };
  const controls: Child[] = [check("Visible", layer.visible, (visible) => patch({ visible })), choice("Colour", chosen, options, pick)];
  if (colour.by === "constant") controls.push(row("Pick", make("input", { type: "color", value: colour.value, "aria-label": "Colour of the layer", change: (event: Event) => patch({ colour: { value: (event.target as HTMLInputElement).value } }) })));
  if (colour.by === "attribute") controls.push(...valueControls(scene, kind, patch));
  controls.push(slider("Opacity", layer.opacity, 0.05, 1, 0.05, (opacity) => patch({ opacity })));
  if (formOf(kind) === "point_cloud") {
    controls.push(choice("Size", layer.size.mode, [["adaptive", "By distance"], ["fixed", "Pixels"], ["world", "Units of the store"]], (mode) => patch({ size: { mode } })));
    controls.push(layer.size.mode === "world" ? row("Units", make("input", { type: "number", step: "any", min: 0, value: layer.size.value, change: (event: Event) => patch({ size: { value: Number((event.target as HTMLInputElement).value) } }) })) : slider("Pixels", layer.size.value, 1, 12, 0.5, (value) => patch({ size: { value } })));
  } else if (formOf(kind) === "mesh") controls.push(check("Wireframe", layer.wireframe, (wireframe) => patch({ wireframe })));
  else controls.push(slider("Width", layer.width, 1, 8, 0.5, (width) => patch({ width })));
  return section(titleOf(kind), open, ...controls);
}

/** How values are coloured: a range with how they are spread, or categories that are shown and hidden one by one. */
function valueControls(scene: Scene, kind: string, patch: (change: Record<string, unknown>) => void): Child[] {
  const { colour } = scene.state.layers[kind], controls: Child[] = [], categories = scene.categories(kind), summary = scene.summary(kind);
  const about = scene.attribute(kind);
  if ((about?.width ?? 1) > 2) return controls;
  if (!about?.categories && summary.codes) controls.push(check("Categories", !!categories, (on) => patch({ colour: { categories: on, hidden: [] } })));
  if (categories) {
    const total = categories.reduce((sum, { count }) => sum + count, 0) || 1;
    for (const { code, name, count } of categories.slice(0, 64)) {
      const isShown = !colour.hidden.includes(code), mark = make("i");
      mark.style.background = `rgb(${paletteColour(code).map(Math.round).join()})`;
      const toggle = (on: boolean) => patch({ colour: { hidden: on ? colour.hidden.filter((one) => one !== code) : [...colour.hidden, code] } });
      controls.push(make("label", { class: "category", "data-key": String(code) }, make("input", { type: "checkbox", checked: isShown, "aria-label": `Show ${name}`, change: (event: Event) => toggle((event.target as HTMLInputElement).checked) }), mark, make("span", {}, name), make("small", {}, count ? `${((100 * count) / total).toPrecision(2)} %` : "")));
    }
    const all = categories.map(({ code }) => code);
    controls.push(make("div", { class: "buttons" }, button("All", () => patch({ colour: { hidden: [] } }), "Show all categories"), button("None", () => patch({ colour: { hidden: all } }), "Hide all categories")));
    return controls;
  }
  const range = scene.range(kind), { least, most, bars } = summary;
  const change = (at: 0 | 1, event: Event) => { const changed: [number, number] = [...range]; changed[at] = Number((event.target as HTMLInputElement).value); if (changed[0] <= changed[1]) patch({ colour: { range: changed } }); };
  const names = ["Lowest value", "Highest value"], ends = [0, 1] as const;
  controls.push(choice("Map", colour.map, Object.keys(MAPS).map((name) => [name, name]), (map) => patch({ colour: { map } })));
  controls.push(histogram(bars, least, most, range, colour.map));
  controls.push(row("Range", make("span", { class: "pair" }, ...ends.map((at) => make("input", { type: "number", step: "any", value: format(range[at]), "data-key": String(at), "aria-label": names[at], change: (event: Event) => change(at, event) })))));
  const [low, high] = [Math.min(least, range[0]), Math.max(most, range[1])];
  controls.push(make("div", { class: "pair", "data-key": "range" }, ...ends.map((at) => make("input", { type: "range", min: low, max: high, step: (high - low) / 200 || 1, value: range[at], "data-key": String(at), "aria-label": names[at], input: (event: Event) => change(at, event) }))));
  controls.push(make("div", { class: "buttons" }, button("Most values", () => patch({ colour: { range: null } }), "The second to the ninety-eighth percentile, where a few values lie far out"), button("All values", () => patch({ colour: { range: [least, most] } }), "From the least to the largest value")));
  return controls;
}

/** How often values come, in the colours that they have. */
function histogram(bars: number[], least: number, most: number, [low, high]: [number, number], map: string): HTMLElement {
  const height = 40, strip = make("canvas", { class: "histogram", width: Math.max(1, bars.length * 4), height, role: "img", "aria-label": `Values from ${format(least)} to ${format(most)}` }), pen = strip.getContext("2d")!;
  const largest = Math.max(1, ...bars);
  bars.forEach((count, i) => {
    const value = least + ((i + 0.5) / bars.length) * (most - least), share = Math.sqrt(count / largest);
    pen.fillStyle = `rgb(${sampleMap(map, high > low ? (value - low) / (high - low) : 0.5).map(Math.round).join(" ")} / ${value < low || value > high ? 45 : 100}%)`;
    pen.fillRect(i * 4, height - share * height, 3, share * height);
  });
  return strip;
}

function objectControls(scene: Scene, actions: Actions): Child[] {
  const { objects, selected } = scene.state, patch = (change: Record<string, unknown>) => void actions.patch({ objects: change });
  const controls: Child[] = [choice("Show", objects.mode, [["all", "All objects"], ["only", "Only these"], ["except", "All but these"]], (mode) => patch({ mode }))];
  const ids = make("input", { type: "text", value: objects.ids.join(" "), placeholder: "7 9 20..30", change: (event: Event) => patch({ ids: (event.target as HTMLInputElement).value.split(/[\s,]+/).filter(Boolean) }) });
  controls.push(row("Ids", ids));
  if (selected) controls.push(make("div", { class: "buttons" },
    button("Only it", () => patch({ mode: "only", ids: [selected.object] })), button("Hide it", () => patch({ mode: "except", ids: [...(objects.mode === "except" ? objects.ids : []), selected.object] })),
    button("Unselect", () => void actions.patch({ selected: null }))));
  const groups = (scene.info.groups?.list ?? []).filter(({ name }) => name.toLowerCase().includes(listFilter.toLowerCase()));
  const isIn = (group: number) => objects.groups.includes(group);
  const find = (event: Event) => { listFilter = (event.target as HTMLInputElement).value.trim(); updatePanel(scene, actions); };
  const found = scene.objectsInView(listFilter, MAX_LISTED);
  controls.push(row("List", make("input", { type: "search", value: listFilter, placeholder: "part of an id or a name", "aria-label": "Filter the list", input: find })));
  if (groups.length) controls.push(make("p", { class: "note" }, "Groups"), ...groups.slice(0, 60).map(({ group, name }) => check(name, isIn(group), (on) => {
    const chosen = on ? [...objects.groups, group] : objects.groups.filter((one) => one !== group);
    patch({ groups: chosen, mode: objects.mode === "all" && on ? "only" : objects.mode === "only" && !chosen.length && !objects.ids.length ? "all" : objects.mode });
  })));
  const entries = found.list.map(({ kind, object }) => {
    const isChosen = selected?.kind === kind && selected.object === object;
    return make("li", { "data-key": `${kind} ${object}` }, make("button", { type: "button", title: "Select it and fly there", "aria-pressed": String(isChosen), click: () => void actions.select(kind, object) }, scene.info.kinds.length > 1 ? `${titleOf(kind)} ${object}` : object));
  });
  controls.push(make("p", { class: "note", "data-key": "count" }, found.total > found.list.length ? `${found.list.length} of ${found.total.toLocaleString("en")} objects in view` : `${found.total.toLocaleString("en")} objects in view`), make("ul", { class: "list", "aria-label": "Objects in view" }, ...entries));
  return controls;
}

/** What the list of objects is narrowed to. */
let listFilter = "";
/** Objects that are listed at once. */
const MAX_LISTED = 200;

function filterControls(scene: Scene, actions: Actions): Child[] {
  const { state } = scene, axes = scene.info.axes, box = state.clip.box;
  const where = make("input", { type: "text", value: state.where, placeholder: exampleOf(scene), spellcheck: "false", "aria-label": "Condition", change: (event: Event) => { const text = (event.target as HTMLInputElement).value; actions.patch({ where: text }).catch(() => {}); } });
  const controls: Child[] = [row("Where", where), make("p", { class: "note", id: "counted" }, scene.counted || "As in zvf query --where.")];
  const whole = scene.bounds(), { shown } = state.space, full = [whole[0].slice(0, shown.length), whole[1].slice(0, shown.length)];
  const clip = (change: Record<string, unknown>) => void actions.patch({ clip: change });
  controls.push(check("Clip box", box !== null, (on) => clip({ box: on ? full : null })));
  if (box) {
    shown.forEach((axis, i) => {
      const side = (type: string, at: 0 | 1) => make("input", { type, min: full[0][i], max: full[1][i], step: type === "number" ? "any" : (full[1][i] - full[0][i]) / 200 || 1, value: type === "number" ? format(box[at][i]) : box[at][i], "aria-label": `${at ? "Highest" : "Lowest"} ${axes[axis].name}`, change: (event: Event) => {
        const changed = [[...scene.state.clip.box![0]], [...scene.state.clip.box![1]]];
        changed[at][i] = Number((event.target as HTMLInputElement).value);
        clip({ box: changed });
      } });
      controls.push(row(axes[axis].name, make("span", { class: "pair" }, side("number", 0), side("number", 1))), row("", make("span", { class: "pair" }, side("range", 0), side("range", 1))));
    });
    controls.push(make("div", { class: "buttons" }, button("Copy as --bbox", () => void navigator.clipboard?.writeText(`--bbox ${scene.storeBox(box).map((side) => side.join(",")).join(":")}`))));
  }
  controls.push(...planeControls(scene, clip));
  return controls;
}

function measureControls(scene: Scene, actions: Actions): Child[] {
  const { measure } = scene.state, patch = (change: Record<string, unknown>) => void actions.patch({ measure: change });
  const words: Record<string, string> = { off: "Nothing", distance: "Distance", path: "Length of a path", area: "Area" }, said = describe(measure, (value, power) => withUnit(scene, value, power));
  const controls: Child[] = [choice("Measure", measure.mode, MODES.map((mode): [string, string] => [mode, words[mode]]), (mode) => patch({ mode, points: mode === "off" ? [] : measure.points })), make("p", { class: "note", id: "measured", role: "status" }, said || "Lengths and areas between places that are clicked.")];
  if (measure.points.length) controls.push(make("div", { class: "buttons" }, button("Undo", () => patch({ points: measure.points.slice(0, -1) }), "Take the last place back (backspace)"), button("Clear", () => patch({ points: [] })), button("Copy", () => void navigator.clipboard?.writeText(said), "Copy what was measured")));
  return controls;
}

/** A condition that this store could have. */
function exampleOf(scene: Scene): string {
  const about = scene.info.kinds[0]?.attributes.find(({ scope, width }) => scope === "vertex" && width === 1);
  return `${about?.name ?? scene.info.axes[0].name} > 2`;
}

/** Planes that cut what is before them, and a slab between two of them. */
function planeControls(scene: Scene, clip: (change: Record<string, unknown>) => void): Child[] {
  const { planes } = scene.state.clip, view = scene.view(), { target } = scene.state.camera, reach = scene.extent() / 2;
  const along = (normal: number[]) => normal.reduce((sum, n, i) => sum + n * target[i], 0);
  const toEye = view.forward.map((x) => -x), away = [...view.forward];
  const controls: Child[] = [make("div", { class: "buttons" },
    button("Cut here", () => clip({ planes: [...planes, { normal: toEye, offset: along(toEye) }] }), "A plane through the middle of the view: what is nearer is cut away"),
    button("Slab", () => clip({ planes: [{ normal: toEye, offset: along(toEye) + reach / 10 }, { normal: away, offset: along(away) + reach / 10 }] }), "Only a slab through the middle of the view"),
    ...(planes.length ? [button("No planes", () => clip({ planes: [] }))] : []))];
  planes.forEach((plane, at) => controls.push(slider(`Plane ${at + 1}`, plane.offset, along(plane.normal) - reach, along(plane.normal) + reach, reach / 100, (offset) => clip({ planes: planes.map((one, i) => (i === at ? { ...one, offset } : one)) }))));
  return controls;
}

/** Which axes are drawn, and the part of the others that is shown. */
function axisControls(scene: Scene, actions: Actions): Child[] {
  const { axes, bounds } = scene.info, { shown, ranges } = scene.state.space;
  const names = axes.map(({ name }, axis): [string, string] => [String(axis), name]);
  const controls: Child[] = shown.map((axis, i) => choice(["Across", "Up", "Depth"][i], String(axis), names, (value) => {
    const changed = [...shown], before = changed.indexOf(Number(value));
    if (before >= 0) changed[before] = axis;
    changed[i] = Number(value);
    void actions.patch({ space: { shown: changed } });
  }));
  axes.forEach(({ name }, axis) => {
    if (shown.includes(axis)) return;
    const low = bounds[0][axis], high = bounds[1][axis], step = (high - low) / 100 || 1, range = ranges[axis], width = range ? range[1] - range[0] : (high - low) / 10 || 1;
    const patch = (start: number, wide: number) => void actions.patch({ space: { ranges: { [axis]: [start, start + wide] } } });
    controls.push(check(`Part of ${name}`, !!range, (on) => (on ? patch(low, width) : void actions.patch({ space: { ranges: { [axis]: null } } }))));
    if (range) controls.push(row(name, make("input", { type: "range", min: low, max: high, step, value: range[0], change: (event: Event) => patch(Number((event.target as HTMLInputElement).value), width) })), row("width", make("input", { type: "number", min: 0, step: "any", value: width, change: (event: Event) => patch(range[0], Number((event.target as HTMLInputElement).value)) })));
  });
  return controls;
}

function viewControls(state: State, actions: Actions): Child[] {
  const turn = (name: string) => button(name, () => void actions.patch({ camera: { orientation: VIEWS[name] } }));
  return [
    make("div", { class: "buttons" }, ...Object.keys(VIEWS).map(turn), button("all", () => actions.frameAll(), "See everything (F)")),
    choice("Projection", state.camera.projection, [["perspective", "Perspective"], ["orthographic", "Orthographic"]], (projection) => void actions.patch({ camera: { projection } })),
    choice("Theme", state.theme, [["auto", "As the system"], ["dark", "Dark"], ["light", "Light"]], (theme) => void actions.patch({ theme, background: theme === "light" || (theme === "auto" && matchMedia("(prefers-color-scheme: light)").matches) ? "#f4f5f7" : "#0d0f14" })),
    row("Background", make("input", { type: "color", value: state.background, change: (event: Event) => void actions.patch({ background: (event.target as HTMLInputElement).value }) })),
    check("Depth shading", state.edl, (edl) => void actions.patch({ edl })), check("Scale bar", state.scaleBar, (scaleBar) => void actions.patch({ scaleBar })), check("Axes", state.axes, (axes) => void actions.patch({ axes })),
    make("div", { class: "buttons" }, button("Save picture", () => actions.screenshot(), "Save the picture with its legend (S); drop it on the page to see the view again"), button("Save view", () => actions.saveView(), "Save the view as a file; drop it on the page to see it again"), button("Keys", () => byId<HTMLDialogElement>("help").showModal(), "Keys (?)")),
  ];
}

function detailControls(scene: Scene, actions: Actions): Child[] {
  const { state, info } = scene, levels = [...new Set(info.kinds.flatMap((kind) => kind.levels.map((level) => level.level)))].sort((a, b) => a - b);
  return [
    choice("Level", String(state.level), [["auto", "By size on screen"], ...levels.map((level): [string, string] => [String(level), `Level ${level}`])], (level) => void actions.patch({ level: level === "auto" ? level : Number(level) })),
    slider("Error, px", state.error ?? 1.5, 0.5, 20, 0.5, (error) => void actions.patch({ error })),
    choice("Points", String(state.budget.points), [...new Set([100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, state.budget.points])].sort((a, b) => a - b).map((n): [string, string] => [String(n), n.toLocaleString("en")]), (points) => void actions.patch({ budget: { points: Number(points) } })),
    check("Statistics", state.stats, (stats) => void actions.patch({ stats })),
  ];
}

/** Says what is drawn of the store, and how far that is from what is stored. */
export function showDetail(scene: Scene): void {
  const measured = describe(scene.state.measure, (value, power) => withUnit(scene, value, power)), text = [...(measured ? [measured] : []), ...(scene.isIdle() ? scene.detail() : ["loading…"])].join("\n"), line = byId("detail");
  if (line.textContent !== text) line.textContent = text;
}

/** What the colours of one kind mean: a ramp with its ends, or names. */
export interface LegendEntry { title: string; ramp: { map: string; ends: [string, string] } | null; items: { name: string; colour: number[] }[] }

export function legendOf(scene: Scene): LegendEntry[] {
  const entries: LegendEntry[] = [];
  for (const { kind } of scene.info.kinds) {
    const { visible, colour } = scene.state.layers[kind], { by, hidden, map } = colour;
    if (!visible) continue;
    if (by === "attribute") {
      const about = scene.attribute(kind), title = about?.name ?? colour.attribute ?? "", categories = scene.categories(kind);
      if (categories) { entries.push({ title, ramp: null, items: categories.filter(({ code }) => !hidden.includes(code)).slice(0, 24).map(({ code, name }) => ({ name, colour: paletteColour(code) })) }); continue; }
      if ((about?.width ?? 1) > 2) continue;
      const [low, high] = scene.range(kind), { least, most } = scene.summary(kind);
      entries.push({ title, ramp: { map, ends: [(least < low ? "≤ " : "") + format(low), (most > high ? "≥ " : "") + format(high)] }, items: [] });
    } else if (by === "group") entries.push({ title: "Groups", ramp: null, items: (scene.info.groups?.list ?? []).slice(0, 24).map(({ group, name }) => ({ name, colour: paletteColour(group) })) });
    else if (by === "direction" && scene.info.kinds.length === 1) entries.push({ title: "Direction", ramp: null, items: scene.state.space.shown.map((axis, i) => ({ name: scene.info.axes[axis].name, colour: [[240, 40, 40], [40, 220, 60], [60, 90, 255]][i] })) });
  }
  return entries;
}

/** A strip of the colours of a map. */
export function drawRamp(map: string): HTMLCanvasElement {
  const strip = make("canvas", { width: 128, height: 1, "aria-hidden": "true" }), pen = strip.getContext("2d")!;
  for (let x = 0; x < 128; x++) { pen.fillStyle = `rgb(${sampleMap(map, x / 127).map(Math.round).join()})`; pen.fillRect(x, 0, 1, 1); }
  return strip;
}

export function showLegend(scene: Scene): void {
  const legend = byId("legend"), entries = legendOf(scene);
  legend.replaceChildren(...entries.flatMap(({ title, ramp, items }) => [
    make("div", {}, title), ...(ramp ? [drawRamp(ramp.map), make("div", { class: "ends" }, ...ramp.ends.map((end) => make("span", {}, end)))] : []), ...items.map(({ name, colour }) => item(name, colour)),
  ]));
  legend.hidden = !entries.length;
}

function item(name: string, colour: number[]): HTMLElement {
  const mark = make("i");
  mark.style.background = `rgb(${colour.map(Math.round).join()})`;
  return make("div", { class: "item" }, mark, make("span", {}, name));
}

export const format = (n: number) => (Number.isFinite(n) ? String(Number(n.toPrecision(5))) : String(n));

/** A round length that is about a seventh of the picture: in pixels of the page, and as it is said. */
export function scaleBarOf(scene: Scene): { pixels: number; label: string } {
  const view = scene.view(), ratio = scene.renderer.canvas.width / Math.max(1, scene.renderer.canvas.clientWidth), unit = scene.info.axes[scene.state.space.shown[0]]?.unit ?? "";
  const perUnit = (view.orthographic ? view.pixelsAtOne : view.pixelsAtOne / scene.state.camera.distance) / ratio;
  const power = 10 ** Math.floor(Math.log10(140 / perUnit)), units = [5, 2, 1].map((k) => k * power).find((u) => u * perUnit <= 160) ?? power;
  return { pixels: units * perUnit, label: `${format(units)} ${SHORT_UNITS[unit] ?? unit}`.trim() };
}

export function showScaleBar(scene: Scene): void {
  const bar = byId("scale"), { pixels, label } = scaleBarOf(scene);
  bar.hidden = !scene.state.scaleBar;
  (bar.firstElementChild as HTMLElement).style.width = `${pixels}px`;
  bar.lastElementChild!.textContent = label;
}

/** A length, or an area, as it is said. */
export function withUnit(scene: Scene, value: number, power: number): string {
  const unit = scene.info.axes[scene.state.space.shown[0]]?.unit ?? "", short = SHORT_UNITS[unit] ?? unit;
  return `${format(value)} ${short}${short && power === 2 ? "²" : ""}`.trim();
}

const SHORT_UNITS: Record<string, string> = { micrometer: "µm", nanometer: "nm", millimeter: "mm", meter: "m", metre: "m", kilometer: "km", centimeter: "cm" };

export function showCard(picked: Picked | null, scene: Scene, actions: Actions): void {
  const card = byId("card");
  card.hidden = !picked;
  if (!picked) return;
  const list = make("dl"), put = (name: string, value: unknown) => list.append(make("dt", {}, name), make("dd", {}, typeof value === "string" ? value : JSON.stringify(value)));
  put("kind", titleOf(picked.kind));
  const { shown } = scene.state.space, unitOf = (axis: number) => { const unit = scene.info.axes[axis]?.unit ?? ""; return SHORT_UNITS[unit] ?? unit; };
  shown.forEach((axis, i) => put(scene.info.axes[axis].name, `${format(picked.position[i])} ${unitOf(axis)}`.trim()));
  for (const [name, value] of Object.entries(picked.attributes)) put(name, typeof value === "number" ? format(value) : value);
  put("level", String(picked.level));
  if (!picked.exact) put("note", "a coarser level: zoom in for the stored vertex");
  const object = picked.object;
  card.replaceChildren(make("h2", {}, object === null ? "Vertex" : `Object ${object}`), list, make("div", { class: "buttons" },
    ...(object === null ? [] : [button("Only it", () => void actions.patch({ objects: { mode: "only", ids: [object] } })), button("Hide it", () => void actions.patch({ objects: { mode: "except", ids: [...(scene.state.objects.mode === "except" ? scene.state.objects.ids : []), object] } })), button("Fly there", () => void actions.select(picked.kind, object))]),
    button("Centre", () => actions.centre(picked.position), "Turn around this place"),
    button("Copy position", () => void navigator.clipboard?.writeText(picked.position.join(","))),
    button("Close", () => { card.hidden = true; void actions.patch({ selected: null }); })));
}

/** Shows a fault; with `retry` it has a button that tries again. */
export function showFault(fault: Fault, retry: (() => void) | null, word = "Try again"): void {
  const alerts = byId("alerts");
  const line = [fault.message.startsWith(fault.class) ? "" : `${fault.class}: `, fault.message, fault.key && !fault.message.includes(fault.key) ? ` (${fault.key})` : "", fault.hint && !fault.message.includes(fault.hint) ? ` - ${fault.hint}` : ""].join("");
  const alert = make("div", { class: "alert" }, make("span", {}, line), make("div", {}, ...(retry ? [button(word, () => { alert.remove(); retry(); })] : []), button("×", () => alert.remove(), "Close this message")));
  alerts.append(alert);
  while (alerts.childElementCount > 4) alerts.firstElementChild!.remove();
}

/** Says what may be missing, once. */
export function showNotice(text: string): void {
  const notices = byId("notices");
  if ([...notices.children].some((one) => one.firstElementChild?.textContent === text)) return;
  const notice = make("div", { class: "alert notice" }, make("span", {}, text), make("div", {}, button("×", () => { notice.hidden = true; }, "Close this notice")));
  notices.append(notice);
}

const KEYS: [string, string][] = [["drag, arrows", "turn"], ["right drag, shift arrows", "move"], ["wheel, + and −", "zoom"], ["click, enter", "what is there"], ["double click, C", "turn around what is there"], ["F", "see everything"], ["1 … 6", "six views"], ["O", "perspective or orthographic"], ["P", "panel"], ["S", "save the picture"], ["T", "statistics"], ["I", "cells and requests"], ["M", "measure distance, path, area"], ["backspace", "take the last place back"], ["/", "search"], ["escape", "unselect"], ["?", "this list"]];

export function buildHelp(): void {
  const list = make("dl");
  for (const [key, what] of KEYS) list.append(make("dt", {}, key), make("dd", {}, what));
  byId("help").replaceChildren(list, make("form", { method: "dialog" }, make("button", { type: "submit" }, "Close")));
}
