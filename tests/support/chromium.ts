import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

const CHROMIUM = '/usr/bin/chromium'

/** False, with a printed reason, where there is no browser. On CI it must be there. */
export const canBrowse = existsSync(CHROMIUM) || Boolean(process.env['CI'])
if (!canBrowse) console.log(`Skipped: there is no browser at ${CHROMIUM}.`)

export function launchChromium(args: readonly string[] = []): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', ...args] })
}
