import { hash } from 'node:crypto'

const STYLE = `
  body { font: 16px/1.5 system-ui, sans-serif; margin: 0; min-height: 100vh; display: grid; place-items: center;
    background: #f6f7f9; color: #1a1d21 }
  main { max-width: 26rem; margin: 1rem; padding: 2rem; border-radius: 12px; background: #fff; text-align: center;
    box-shadow: 0 1px 3px #0002, 0 8px 24px #0001 }
  h1 { font-size: 1.25rem; margin: .75rem 0 .5rem }
  p { margin: 0; color: #555c66; overflow-wrap: anywhere }
  .mark { display: inline-grid; place-items: center; width: 3rem; height: 3rem; border-radius: 50%; font-size: 1.5rem;
    color: #fff; background: #1f883d }
  .failed .mark { background: #c93c37 }
  .asking .mark, a { background: #0969da }
  a { display: inline-block; margin-top: 1.5rem; padding: .6rem 1.2rem; border-radius: 6px; color: #fff; text-decoration: none }
  @media (prefers-color-scheme: dark) {
    body { background: #15181c; color: #e8eaed }
    main { background: #1f2429; box-shadow: none }
    p { color: #a5adb8 }
  }`

/** Headers of the pages: nothing but their own style is loaded, they cannot be framed, and their addresses go to nobody. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': [
    "default-src 'none'",
    `style-src 'sha256-${hash('sha256', STYLE, 'base64')}'`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'referrer-policy': 'no-referrer',
}

/** The page that a browser shows after a sign-in. The texts may come from outside. */
export function callbackPage({ succeeded, title, text }: { succeeded: boolean; title: string; text: string }): string {
  return page({ look: succeeded ? 'succeeded' : 'failed', title, text })
}

/**
 * The page that a browser shows before a sign-in. It goes on with a click, never by itself: whoever was brought here by
 * somebody else's page can stop.
 *
 * @param page.continueUrl - Where the click leads, e.g. `?continue`.
 */
export function startPage({ server, authUrl, continueUrl }: StartPage): string {
  const { host } = new URL(authUrl)
  const text = `You will sign in at ${host}. Go on only if you have just asked for this in your own conversation.`
  return page({ look: 'asking', title: `Sign in to ${server}`, text, link: { href: continueUrl, label: 'Continue' } })
}

type StartPage = { readonly server: string; readonly authUrl: string; readonly continueUrl: string }

const MARKS = { succeeded: '&#10003;', failed: '!', asking: '?' } as const

type Page = {
  readonly look: keyof typeof MARKS
  readonly title: string
  readonly text: string
  readonly link?: { readonly href: string; readonly label: string }
}

function page({ look, title, text, link }: Page): string {
  const way = link ? `\n<a href="${escapeHtml(link.href)}">${escapeHtml(link.label)}</a>` : ''
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main class="${look}">
<div class="mark" aria-hidden="true">${MARKS[look]}</div>
<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(text)}</p>${way}
</main>
</body>
</html>
`
}

/** Browsers ask for HTML by name; programs ask for JSON or take anything. */
export function wantsPage(accept: string | undefined): boolean {
  return /\btext\/html\b/i.test(accept ?? '')
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
