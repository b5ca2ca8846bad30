/** What has had the focus last, with all that it was in, and the items among which somebody was going through a list. */
type Focused = {
  readonly element: HTMLElement
  readonly within: readonly HTMLElement[]
  /** Undefined: it was in none. */
  readonly item: HTMLElement | undefined
  readonly items: readonly HTMLElement[]
}

/**
 * Keeps the focus on the page. A browser drops it when what has it goes away, e.g. a call that was decided on or a form that was
 * sent, and whoever works with the keyboard would start at the top of the document again. It goes to the next item of the list
 * (`data-item`), to the dialog or what scrolls around it, or to the heading of the page, once there is one.
 */
export class FocusKeeper {
  #last: Focused | undefined
  #wantsHeading = false
  #timer: ReturnType<typeof setTimeout> | undefined

  /** @returns Ends it. */
  start(): () => void {
    const watch = new MutationObserver(this.#check)
    watch.observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ['disabled'] })
    document.addEventListener('focusin', this.#remember)
    document.addEventListener('pointerdown', this.#forget)
    return () => {
      watch.disconnect()
      document.removeEventListener('focusin', this.#remember)
      document.removeEventListener('pointerdown', this.#forget)
      clearTimeout(this.#timer)
    }
  }

  /** Another page is shown: unless something on it has the focus, its heading gets it. */
  pageChanged(): void {
    this.#wantsHeading = !mainOf()?.contains(document.activeElement)
    this.#check()
  }

  #remember = ({ target }: FocusEvent): void => {
    if (!(target instanceof HTMLElement) || target === document.body) return
    this.#wantsHeading = false
    const items = [...document.querySelectorAll<HTMLElement>('[data-item]')]
    const item = items.find((each) => each.contains(target))
    this.#last = { element: target, within: ancestorsOf(target), item, items }
  }

  /** Whoever points elsewhere has left it. */
  #forget = (): void => {
    this.#wantsHeading = false
    this.#last = undefined
  }

  /** A dialog that closes gives the focus back by itself: that comes first. */
  #check = (): void => {
    if (!this.#wantsHeading && (!this.#last || document.activeElement !== document.body)) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#settle)
  }

  #settle = (): void => {
    const isLost = document.activeElement === document.body
    if (this.#wantsHeading) return headingOf()?.focus({ preventScroll: true })
    if (!isLost || !this.#last) return
    const { element, within } = this.#last
    // A button that is at work is disabled: it gets the focus back, unless it goes.
    if (element.isConnected) return element.focus({ preventScroll: true })
    const next = nextOf(this.#last)
    if (next) return next.focus()
    const around = within.find((each) => each.isConnected && (each.tabIndex >= 0 || each.matches('[role=dialog]')))
    ;(around ?? headingOf())?.focus({ preventScroll: true })
  }
}

const mainOf = (): HTMLElement | null => document.querySelector('main')

const headingOf = (): HTMLElement | null => document.querySelector('main h1')

/** The next item that is still there; behind the last one, the last that is left. */
function nextOf({ item, items }: Focused): HTMLElement | undefined {
  if (!item) return undefined
  const at = items.indexOf(item)
  const isThere = (each: HTMLElement): boolean => each.isConnected
  return items.slice(at + 1).find(isThere) ?? items.slice(0, at).findLast(isThere)
}

/** The nearest comes first. */
function ancestorsOf(element: HTMLElement): HTMLElement[] {
  const { parentElement } = element
  return parentElement ? [parentElement, ...ancestorsOf(parentElement)] : []
}
