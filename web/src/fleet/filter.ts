// Which hosts are looked at: by name, kernel and label. All views follow.

import type { Fleet, FleetHost } from '../data';
import { h } from '../dom';
import { counted, grouped } from '../format';
import { keep, onState, stateOf } from '../state';

/** Labels and kernels that can be chosen; more are found by the text. */
const MOST = 200;

export class Filter {
  readonly element: HTMLElement;
  private readonly said = h('output', { class: 'found', id: 'fleet-found', 'aria-live': 'polite' });
  private readonly text = h('input', { type: 'search', id: 'fleet-search', placeholder: 'Find hosts', 'aria-label': 'Find hosts by name, kernel or label', autocomplete: 'off', spellcheck: 'false' });
  private readonly kernel: HTMLSelectElement;
  private readonly label: HTMLSelectElement;
  private readonly changed: (() => void)[] = [];
  /** The hosts that are looked at, in their order. */
  hosts: FleetHost[] = [];

  constructor(private readonly fleet: Fleet) {
    const kernels = sorted(fleet.hosts.flatMap((host) => host.periods.map((period) => period.kernel ?? '')));
    const labels = sorted(fleet.hosts.flatMap((host) => host.periods.flatMap((period) => parts(period.labels))));
    this.kernel = choice('fleet-kernel', 'all kernels', kernels);
    this.label = choice('fleet-label', 'all labels', labels);
    this.element = h(
      'div',
      { class: 'filters', role: 'search' },
      h('label', { class: 'choice' }, 'Host', this.text),
      h('label', { class: 'choice' }, 'Kernel', this.kernel),
      labels.length ? h('label', { class: 'choice' }, 'Label', this.label) : null,
      this.said,
    );
    this.text.addEventListener('input', () => this.set('q', this.text.value.trim()));
    this.kernel.addEventListener('change', () => this.set('kernel', this.kernel.value));
    this.label.addEventListener('change', () => this.set('label', this.label.value));
    this.follow();
    onState(() => {
      this.follow();
      this.changed.forEach((callback) => callback());
    });
  }

  /** Calls back when other hosts are looked at. */
  onChange(callback: () => void): void {
    this.changed.push(callback);
  }

  get isOn(): boolean {
    return this.hosts.length < this.fleet.hosts.length;
  }

  private set(key: 'q' | 'kernel' | 'label', value: string): void {
    keep(key, value || null);
    this.follow();
    this.changed.forEach((callback) => callback());
  }

  /** What the address says. */
  private follow(): void {
    const [query, kernel, label] = (['q', 'kernel', 'label'] as const).map((key) => stateOf(key) ?? '');
    if (this.text.value.trim() !== query) this.text.value = query;
    this.kernel.value = kernel;
    this.label.value = label;
    const wanted = query.toLowerCase();
    this.hosts = this.fleet.hosts.filter((host) => matches(host, wanted, kernel, label));
    const all = this.fleet.hosts.length;
    this.said.textContent = this.isOn ? `${grouped(this.hosts.length)} of ${counted(all, 'host')}` : counted(all, 'host');
  }
}

function matches(host: FleetHost, wanted: string, kernel: string, label: string): boolean {
  const has = (text: string | null): boolean => text !== null && text.toLowerCase().includes(wanted);
  const isFound = !wanted || has(host.name) || host.periods.some((period) => has(period.kernel) || has(period.labels));
  const hasKernel = !kernel || host.periods.some((period) => period.kernel === kernel);
  const hasLabel = !label || host.periods.some((period) => parts(period.labels).includes(label));
  return isFound && hasKernel && hasLabel;
}

/** `a=1,b=2` in its parts. */
function parts(labels: string | null): string[] {
  return labels ? labels.split(',') : [];
}

function sorted(texts: string[]): string[] {
  return [...new Set(texts)].filter(Boolean).sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).slice(0, MOST);
}

function choice(id: string, all: string, values: string[]): HTMLSelectElement {
  return h('select', { id }, h('option', { value: '' }, all), ...values.map((value) => h('option', { value }, value)));
}
