import { mkdtempSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { build } from 'vite'
import { startHttpServer } from '../support/http-server.ts'
import { blocksOf, fileOf } from '../docs/page.ts'
import { installOnce } from '../support/install-once.ts'

/**
 * Its 947 packages take 504 MB, which is more than half of all that the repository installs, so they are no development
 * dependencies: they are installed once, when this test runs.
 */
const COPILOTKIT = '1.74.0'

const ENTRY = `import { createRoot } from 'react-dom/client'
import { App } from './app.jsx'
createRoot(document.getElementById('root')).render(<App />)`

const HTML = `<!doctype html><meta charset="utf-8"><title>CopilotKit</title><link rel="icon" href="data:,">
<div id="root"></div><script type="module" src="./entry.jsx"></script>`

/** The page of docs/ag-ui.md, which talks to the agency that its address names as `?agency=`. @returns The folder. */
export async function buildPage(): Promise<string> {
  const packages = [`@copilotkit/react-core@${COPILOTKIT}`, 'react@19', 'react-dom@19', 'zod@4']
  const folder = mkdtempSync(path.join(await installOnce(`copilotkit-${COPILOTKIT}`, packages), 'page-'))
  const app = blocksOf('docs/ag-ui.md').find((block) => fileOf(block) === 'app.jsx')!.text
  const address = "new URLSearchParams(location.search).get('agency')"
  writeFileSync(path.join(folder, 'app.jsx'), app.replace("'http://127.0.0.1:8000/desk/agui'", address))
  writeFileSync(path.join(folder, 'entry.jsx'), ENTRY)
  writeFileSync(path.join(folder, 'index.html'), HTML)
  const outDir = path.join(folder, 'dist')
  await build({ root: folder, configFile: false, logLevel: 'silent', build: { outDir, minify: false } })
  return folder
}

const TYPES: Readonly<Record<string, string>> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' }

/** Serves a built page until the test has ended. @returns Its address. */
export function servePage(folder: string): Promise<string> {
  return startHttpServer((request, response) => {
    const name = new URL(request.url ?? '/', 'http://page').pathname.slice(1) || 'index.html'
    response.setHeader('content-type', TYPES[path.extname(name)] ?? 'application/octet-stream')
    readFile(path.join(folder, 'dist', name)).then(
      (bytes) => response.end(bytes),
      () => response.writeHead(404).end(),
    )
  })
}
