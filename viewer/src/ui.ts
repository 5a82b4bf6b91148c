// The controls around the picture. Names, ids and units are text, never HTML.

import { VIEWS } from "./camera.ts";
import { MAPS, paletteColour, sampleMap } from "./colour.ts";
import { formOf, storeOf, type Fault } from "./pool.ts";
import type { Picked, Scene } from "./scene.ts";
import type { ColourBy, State } from "./state.ts";

export interface Actions {
  patch(patch: Record<string, unknown>): Promise<void>;
  select(kind: string, object: string): Promise<void>;
  frameAll(): void;
  screenshot(): void;
  saveView(): void;
  retry(): void;
}

const byId = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;

type Child = Node | string;

function make<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Record<string, string | boolean | number | ((event: any) => void)> = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else if (typeof value === "boolean") { if (value) element.setAttribute(name, ""); }
    else element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

const row = (label: string, control: HTMLElement): HTMLElement => { control.setAttribute("aria-label", control.getAttribute("aria-label") ?? label); return make("label", { class: "row" }, make("span", {}, label), control); };
const button = (text: string, click: () => void, title = text) => make("button", { type: "button", title, click }, text);
const check = (label: string, checked: boolean, change: (on: boolean) => void) => row(label, make("input", { type: "checkbox", checked, change: (event: Event) => change((event.target as HTMLInputElement).checked) }));
const slider = (label: string, value: number, min: number, max: number, step: number, input: (value: number) => void) => row(label, make("input", { type: "range", min, max, step, value, input: (event: Event) => input(Number((event.target as HTMLInputElement).value)) }));
const choice = (label: string, value: string, options: [string, string][], change: (value: string) => void) => {
  const select = make("select", { change: (event: Event) => change((event.target as HTMLSelectElement).value) }, ...options.map(([key, text]) => make("option", { value: key, selected: key === value }, text)));
  return row(label, select);
};
const section = (title: string, open: boolean, ...children: Child[]) => make("details", { open }, make("summary", {}, title), ...children);

export const TITLES: Record<string, string> = { point_cloud: "Points", line: "Lines", polyline: "Polylines", streamline: "Streamlines", graph: "Graph", skeleton: "Skeletons", mesh: "Meshes" };

/** What a kind is called, with its store where there are several. */
const titleOf = (kind: string) => (storeOf(kind) ? `${storeOf(kind)}: ` : "") + (TITLES[formOf(kind)] ?? formOf(kind));

/** Builds the panel from the state; called again when the state was changed from elsewhere. */
export function buildPanel(scene: Scene, actions: Actions): void {
  const panel = byId("panel"), { state, info } = scene, opened = new Set(Array.from(panel.querySelectorAll("details[open] > summary"), (s) => s.textContent));
  const isFirst = panel.childElementCount === 0, open = (title: string, initially: boolean) => (isFirst ? initially : opened.has(title));
  panel.replaceChildren(
    ...info.kinds.map(({ kind }) => layerSection(scene, actions, kind, open(titleOf(kind), info.kinds.length < 4))),
    section("Objects", open("Objects", false), ...objectControls(scene, actions)),
    section("Filter and clip", open("Filter and clip", false), ...filterControls(scene, actions)),
    ...(info.axes.length > 3 ? [section("Axes", open("Axes", true), ...axisControls(scene, actions))] : []),
    section("View", open("View", false), ...viewControls(state, actions)),
    section("Detail", open("Detail", false), ...detailControls(scene, actions)),
    // Hosts without a listing are usual: what they hide is said here, and over the picture where geometry is missing.
    ...(info.notices.length ? [section("What may be missing", open("What may be missing", false), ...[...new Set(info.notices)].map((text) => make("p", { class: "note" }, text)))] : []),
  );
}

function layerSection(scene: Scene, actions: Actions, kind: string, open: boolean): HTMLElement {
  const layer = scene.state.layers[kind], info = scene.info.kinds.find((one) => one.kind === kind)!;
  const patch = (change: Record<string, unknown>) => void actions.patch({ layers: { [kind]: change } });
  const options: [string, string][] = [["constant", "One colour"], ["object", "Object"], ["group", "Group"], ["direction", "Direction"], ["depth", "Depth"]];
  if (formOf(kind) === "point_cloud") options.splice(3, 1);
  if (!scene.info.groups) options.splice(2, 1);
  const chosen = layer.colour.by === "attribute" ? `${layer.colour.scope ?? "vertex"}:${layer.colour.attribute}` : layer.colour.by;
  for (const attribute of info.attributes) options.push([`${attribute.scope}:${attribute.name}`, attribute.scope === "object" ? `${attribute.name} (object)` : attribute.name]);
  const pick = (value: string) => {
    const [scope, ...name] = value.split(":");
    patch({ colour: name.length ? { by: "attribute", scope, attribute: name.join(":"), range: null } : { by: value as ColourBy, attribute: null, scope: null, range: null } });
  };
  const controls: Child[] = [check("Visible", layer.visible, (visible) => patch({ visible })), choice("Colour", chosen, options, pick)];
  if (layer.colour.by === "constant") controls.push(row("Pick", make("input", { type: "color", value: layer.colour.value, "aria-label": "Colour of the layer", change: (event: Event) => patch({ colour: { value: (event.target as HTMLInputElement).value } }) })));
  if (layer.colour.by === "attribute" && !scene.attribute(kind)?.categories) {
    const [low, high] = scene.range(kind), number = (at: 0 | 1, label: string) => make("input", { type: "number", step: "any", value: at ? high : low, "aria-label": label, change: (event: Event) => { const range: [number, number] = [...scene.range(kind)]; range[at] = Number((event.target as HTMLInputElement).value); patch({ colour: { range } }); } });
    controls.push(choice("Map", layer.colour.map, Object.keys(MAPS).map((name) => [name, name]), (map) => patch({ colour: { map } })));
    controls.push(row("Range", make("span", { class: "pair" }, number(0, "Lowest value"), number(1, "Highest value"))));
    const [least, most] = scene.knownRange(kind);
    const slide = (at: 0 | 1, label: string) => make("input", { type: "range", min: least, max: most, step: (most - least) / 200 || 1, value: at ? high : low, "aria-label": label, change: (event: Event) => { const range: [number, number] = [...scene.range(kind)]; range[at] = Number((event.target as HTMLInputElement).value); if (range[0] <= range[1]) patch({ colour: { range } }); } });
    controls.push(row("", make("span", { class: "pair" }, slide(0, "Lowest value"), slide(1, "Highest value"))));
  }
  controls.push(slider("Opacity", layer.opacity, 0.05, 1, 0.05, (opacity) => patch({ opacity })));
  if (formOf(kind) === "point_cloud") {
    controls.push(choice("Size", layer.size.mode, [["adaptive", "Pixels, by level"], ["fixed", "Pixels"], ["world", "Units of the store"]], (mode) => patch({ size: { mode } })));
    controls.push(layer.size.mode === "world" ? row("Units", make("input", { type: "number", step: "any", min: 0, value: layer.size.value, change: (event: Event) => patch({ size: { value: Number((event.target as HTMLInputElement).value) } }) })) : slider("Pixels", layer.size.value, 1, 12, 0.5, (value) => patch({ size: { value } })));
  } else if (formOf(kind) === "mesh") controls.push(check("Wireframe", layer.wireframe, (wireframe) => patch({ wireframe })));
  else controls.push(slider("Width", layer.width, 1, 8, 0.5, (width) => patch({ width })));
  return section(titleOf(kind), open, ...controls);
}

function objectControls(scene: Scene, actions: Actions): Child[] {
  const { objects, selected } = scene.state, patch = (change: Record<string, unknown>) => void actions.patch({ objects: change });
  const controls: Child[] = [choice("Show", objects.mode, [["all", "All objects"], ["only", "Only these"], ["except", "All but these"]], (mode) => patch({ mode }))];
  const ids = make("input", { type: "text", value: objects.ids.join(" "), placeholder: "7 9 20..30", change: (event: Event) => patch({ ids: (event.target as HTMLInputElement).value.split(/[\s,]+/).filter(Boolean) }) });
  controls.push(row("Ids", ids));
  if (selected) controls.push(make("div", { class: "buttons" },
    button("Only it", () => patch({ mode: "only", ids: [selected.object] })), button("Hide it", () => patch({ mode: "except", ids: [...(objects.mode === "except" ? objects.ids : []), selected.object] })),
    button("Unselect", () => void actions.patch({ selected: null }))));
  const groups = scene.info.groups?.list ?? [];
  if (groups.length) controls.push(make("p", { class: "note" }, "Groups"), ...groups.slice(0, 60).map(({ group, name }) => check(name, objects.groups.includes(group), (on) => {
    const chosen = on ? [...objects.groups, group] : objects.groups.filter((one) => one !== group);
    patch({ groups: chosen, mode: objects.mode === "all" && on ? "only" : objects.mode === "only" && !chosen.length && !objects.ids.length ? "all" : objects.mode });
  })));
  return controls;
}

function filterControls(scene: Scene, actions: Actions): Child[] {
  const { state } = scene, axes = scene.info.axes, box = state.clip.box;
  const where = make("input", { type: "text", value: state.where, placeholder: "radius > 2", spellcheck: "false", "aria-label": "Condition", change: (event: Event) => { const text = (event.target as HTMLInputElement).value; actions.patch({ where: text }).catch(() => {}); } });
  const controls: Child[] = [row("Where", where), make("p", { class: "note", id: "counted" }, "As in zvf query --where.")];
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
    controls.push(make("div", { class: "buttons" }, button("Copy as --bbox", () => void navigator.clipboard?.writeText(`--bbox ${box[0].join(",")}:${box[1].join(",")}`))));
  }
  controls.push(...planeControls(scene, clip));
  return controls;
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
    make("div", { class: "buttons" }, button("Save picture", () => actions.screenshot(), "Save the picture (S)"), button("Save view", () => actions.saveView(), "Save the view as a file; drop it on the page to see it again"), button("Keys", () => byId<HTMLDialogElement>("help").showModal(), "Keys (?)")),
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

export function showLegend(scene: Scene): void {
  const legend = byId("legend"), parts: HTMLElement[] = [];
  for (const { kind } of scene.info.kinds) {
    const layer = scene.state.layers[kind];
    if (!layer.visible) continue;
    if (layer.colour.by === "attribute") {
      const about = scene.attribute(kind);
      const title = make("div", {}, about?.name ?? layer.colour.attribute ?? "");
      if (about?.categories) { parts.push(title, ...about.categories.slice(0, 24).map((name, i) => item(String(name), paletteColour(i)))); continue; }
      if ((about?.width ?? 1) > 2) continue;
      const strip = make("canvas", { width: 128, height: 1, "aria-hidden": "true" }), pen = strip.getContext("2d")!, [low, high] = scene.range(kind);
      for (let x = 0; x < 128; x++) { pen.fillStyle = `rgb(${sampleMap(layer.colour.map, x / 127).map(Math.round).join()})`; pen.fillRect(x, 0, 1, 1); }
      parts.push(title, strip, make("div", { class: "ends" }, make("span", {}, format(low)), make("span", {}, format(high))));
    } else if (layer.colour.by === "group") parts.push(make("div", {}, "Groups"), ...(scene.info.groups?.list ?? []).slice(0, 24).map(({ group, name }) => item(name, paletteColour(group))));
    else if (layer.colour.by === "direction" && scene.info.kinds.length === 1) parts.push(make("div", {}, "Direction"), ...scene.state.space.shown.map((axis, i) => item(scene.info.axes[axis].name, [[240, 40, 40], [40, 220, 60], [60, 90, 255]][i] as [number, number, number])));
  }
  legend.replaceChildren(...parts);
  legend.hidden = !parts.length;
}

function item(name: string, colour: number[]): HTMLElement {
  const mark = make("i");
  mark.style.background = `rgb(${colour.map(Math.round).join()})`;
  return make("div", { class: "item" }, mark, make("span", {}, name));
}

export const format = (n: number) => (Number.isFinite(n) ? String(Number(n.toPrecision(5))) : String(n));

export function showScaleBar(scene: Scene): void {
  const bar = byId("scale"), view = scene.view(), ratio = scene.renderer.canvas.width / Math.max(1, scene.renderer.canvas.clientWidth);
  bar.hidden = !scene.state.scaleBar;
  const unit = scene.info.axes[scene.state.space.shown[0]]?.unit ?? "";
  const perUnit = (view.orthographic ? view.pixelsAtOne : view.pixelsAtOne / scene.state.camera.distance) / ratio;
  const power = 10 ** Math.floor(Math.log10(140 / perUnit)), units = [5, 2, 1].map((k) => k * power).find((u) => u * perUnit <= 160) ?? power;
  (bar.firstElementChild as HTMLElement).style.width = `${units * perUnit}px`;
  bar.lastElementChild!.textContent = `${format(units)} ${SHORT_UNITS[unit] ?? unit}`.trim();
}

const SHORT_UNITS: Record<string, string> = { micrometer: "µm", nanometer: "nm", millimeter: "mm", meter: "m", metre: "m", kilometer: "km", centimeter: "cm" };

export function showCard(picked: Picked | null, scene: Scene, actions: Actions): void {
  const card = byId("card");
  card.hidden = !picked;
  if (!picked) return;
  const list = make("dl"), put = (name: string, value: unknown) => list.append(make("dt", {}, name), make("dd", {}, typeof value === "string" ? value : JSON.stringify(value)));
  put("kind", titleOf(picked.kind));
  put("position", picked.position.map(format).join(", "));
  for (const [name, value] of Object.entries(picked.attributes)) put(name, typeof value === "number" ? format(value) : value);
  put("level", String(picked.level));
  if (!picked.exact) put("note", "a coarser level: zoom in for the stored vertex");
  const object = picked.object;
  card.replaceChildren(make("h2", {}, object === null ? "Vertex" : `Object ${object}`), list, make("div", { class: "buttons" },
    ...(object === null ? [] : [button("Only it", () => void actions.patch({ objects: { mode: "only", ids: [object] } })), button("Hide it", () => void actions.patch({ objects: { mode: "except", ids: [...(scene.state.objects.mode === "except" ? scene.state.objects.ids : []), object] } })), button("Fly there", () => void actions.select(picked.kind, object))]),
    button("Close", () => { card.hidden = true; void actions.patch({ selected: null }); })));
}

/** Shows a fault; with `retry` it has a button that tries again. */
export function showFault(fault: Fault, retry: (() => void) | null): void {
  const alerts = byId("alerts");
  const line = [fault.message.startsWith(fault.class) ? "" : `${fault.class}: `, fault.message, fault.key && !fault.message.includes(fault.key) ? ` (${fault.key})` : "", fault.hint && !fault.message.includes(fault.hint) ? ` - ${fault.hint}` : ""].join("");
  const alert = make("div", { class: "alert" }, make("span", {}, line), make("div", {}, ...(retry ? [button("Try again", () => { alert.remove(); retry(); })] : []), button("×", () => alert.remove(), "Close this message")));
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

const KEYS: [string, string][] = [["drag, arrows", "turn"], ["right drag, shift arrows", "move"], ["wheel, + and −", "zoom"], ["click, enter", "what is there"], ["F", "see everything"], ["1 … 6", "six views"], ["O", "perspective or orthographic"], ["P", "panel"], ["S", "save the picture"], ["T", "statistics"], ["/", "search"], ["escape", "unselect"], ["?", "this list"]];

export function buildHelp(): void {
  const list = make("dl");
  for (const [key, what] of KEYS) list.append(make("dt", {}, key), make("dd", {}, what));
  byId("help").replaceChildren(list, make("form", { method: "dialog" }, make("button", { type: "submit" }, "Close")));
}
