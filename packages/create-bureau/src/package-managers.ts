export const MANAGERS = ['npm', 'pnpm', 'yarn', 'bun'] as const

/** What installs the packages of a project and runs its scripts. */
export type PackageManager = {
  readonly name: (typeof MANAGERS)[number]
  /** Undefined: it does not run this program, but was asked for. */
  readonly version: string | undefined
}

type Words = {
  /** Runs a script of package.json. */
  readonly run: string
  /** Runs a program of a package that is installed. */
  readonly exec: string
  /** Files that say what to install. */
  readonly manifests: string
  /** In an image: installs everything, then what production needs alone, or only that. */
  readonly install: string
  readonly prune: string
  readonly installForProduction: string
}

function wordsOf({ name, version }: PackageManager): Words | undefined {
  if (name === 'pnpm') {
    return {
      run: 'pnpm',
      exec: 'pnpm exec',
      manifests: 'package.json pnpm-lock.yaml',
      install: 'corepack enable && pnpm install --frozen-lockfile',
      prune: 'pnpm prune --prod',
      installForProduction: 'corepack enable && pnpm install --frozen-lockfile --prod',
    }
  }
  if (name === 'bun') {
    const bun = version === undefined ? 'bun' : `bun@${version}`
    const production = 'bun install --frozen-lockfile --production'
    return {
      run: 'bun run', // "bun test" are tests of bun's own kind
      exec: 'bunx',
      manifests: 'package.json bun.lock',
      install: `npm install --global ${bun} && bun install --frozen-lockfile`,
      prune: `rm -r node_modules && ${production}`,
      installForProduction: `npm install --global ${bun} && ${production}`,
    }
  }
  if (name === 'yarn') {
    const yarn = { run: 'yarn', exec: 'yarn', manifests: 'package.json yarn.lock .yarnrc.yml' }
    if (version === undefined || version.startsWith('1.')) {
      const production = 'yarn install --frozen-lockfile --production'
      return { ...yarn, install: 'yarn install --frozen-lockfile', prune: production, installForProduction: production }
    }
    const production = 'yarn workspaces focus --production'
    return {
      ...yarn,
      install: 'corepack enable && yarn install --immutable',
      prune: production,
      installForProduction: `corepack enable && ${production}`,
    }
  }
  return undefined
}

/** A text of a template, which is written for npm, for another package manager. */
export function forManager(text: string, manager: PackageManager): string {
  const words = wordsOf(manager)
  if (!words) return text
  return text
    .replace('COPY package*.json ./', `COPY ${words.manifests} ./`)
    .replace('npm ci --omit=dev', words.installForProduction)
    .replace('npm ci', words.install)
    .replace('npm prune --omit=dev', words.prune)
    .replace(/, or "npm install node@26" (here|there)/, '')
    .replaceAll(/\bnpm (?:run )?(dev|build|start|test|types)\b( +(?=#))?/g, (npm, script: string, space?: string) => {
      const command = `${words.run} ${script}`
      return space === undefined ? command : `${command} `.padEnd(npm.length) // Remarks stay below each other.
    })
    .replaceAll('npx ', `${words.exec} `)
}

/** Files that only this package manager needs. */
export function filesFor({ name }: PackageManager): [string, string][] {
  if (name !== 'yarn') return []
  return [
    [
      '.yarnrc.yml',
      '# TypeScript, and the image of the Dockerfile, look for packages in node_modules.\nnodeLinker: node-modules\n',
    ],
  ]
}
