/** A browser without a screen: follows redirects, keeps cookies per host, fills in the provider's pages. */
export class Browser {
  readonly #cookies = new Map<string, Map<string, string>>()
  readonly #headers: Record<string, string>

  /** `headers` are sent with every request, e.g. `accept`. */
  constructor(headers: Record<string, string> = {}) {
    this.#headers = headers
  }

  /** Signs in at the provider, agrees, and answers with what the callback said. */
  async signIn(authorizationUrl: string, login: string): Promise<Response> {
    return this.#through(authorizationUrl, (page) =>
      /name="login"/.test(page) ? { prompt: 'login', login, password: 'x' } : { prompt: 'consent' },
    )
  }

  /** Follows the provider's link out of the sign-in. */
  async deny(authorizationUrl: string): Promise<Response> {
    return this.#through(authorizationUrl, () => 'abort')
  }

  /** Like `signIn`, but stops before the callback and answers with its address. */
  async callbackUrl(authorizationUrl: string, login: string): Promise<string> {
    return this.#walk(authorizationUrl, (page) =>
      /name="login"/.test(page) ? { prompt: 'login', login, password: 'x' } : { prompt: 'consent' },
    )
  }

  async get(url: string): Promise<Response> {
    return this.#send(url)
  }

  async #through(url: string, fill: (page: string) => Record<string, string> | 'abort'): Promise<Response> {
    return this.#send(await this.#walk(url, fill))
  }

  /** Goes on from a page of the server to the provider, as the page's link or the server's redirect says. */
  async toProvider(url: string): Promise<string> {
    if (!new URL(url).pathname.includes('/auth/start/')) return url
    const response = await this.#send(url)
    const link = /<a href="([^"]+)"/.exec(await response.text())?.[1]
    const led = link === undefined ? response : await this.#send(new URL(link, url).href)
    const provider = led.headers.get('location')
    if (!provider) throw new Error(`no way on from ${url} (${led.status})`)
    return provider
  }

  /** Walks through the provider's pages until it sends the browser to another host. */
  async #walk(url: string, fill: (page: string) => Record<string, string> | 'abort'): Promise<string> {
    const start = await this.toProvider(url)
    const provider = new URL(start).host
    let response = await this.#send(start)
    for (let step = 0; step < 20; step++) {
      const location = response.headers.get('location')
      if (location) {
        const next = new URL(location, response.url)
        if (next.host !== provider) return next.href
        response = await this.#send(next.href)
        continue
      }
      const page = await response.text()
      const form = fill(page)
      const target = form === 'abort' ? /href="([^"]*\/abort)"/.exec(page) : /<form[^>]* action="([^"]+)"/.exec(page)
      if (!target) throw new Error(`no way on from ${response.url} (${response.status}):\n${page}`)
      const next = new URL(target[1]!, response.url).href
      response = await this.#send(next, form === 'abort' ? undefined : new URLSearchParams(form))
    }
    throw new Error('the provider does not come to an end')
  }

  async #send(url: string, form?: URLSearchParams): Promise<Response> {
    const { host } = new URL(url)
    const jar = this.#cookies.get(host) ?? new Map<string, string>()
    this.#cookies.set(host, jar)
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { ...this.#headers, ...(cookie && { cookie }) },
      ...(form && { method: 'POST', body: form }),
    })
    for (const line of response.headers.getSetCookie()) {
      const [pair = ''] = line.split(';')
      const [name = '', ...value] = pair.split('=')
      jar.set(name, value.join('='))
    }
    return response
  }
}
