import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig } from 'vitest/config'

// Workspace packages resolve to their TypeScript sources, so that tests need no build.
const conditions = ['@bureau/source', 'node', 'development|production']

const everyTest = ['packages/*/{src,bin}/**/*.test.ts', 'scripts/**/*.test.ts', 'tests/**/*.test.ts']
const setApart = ['**/*.slow.test.ts', '**/*.measured.test.ts']
/** What needs more than Node and this checkout, or is the most work: databases, servers of others, programs, and the clients of both servers. */
const withOthers = [
  'packages/{cli,client,create-bureau,platform,react}/{src,bin}/**',
  'scripts/sbom.test.ts',
  'tests/{platform,oauth,process,deploy,docs}/**',
  '**/*.{redis,s3}.test.ts',
]
const only = (kind: string): string[] => everyTest.map((pattern) => pattern.replace('*.test.ts', `*.${kind}.test.ts`))

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: ['@bureau/source'] } },
  test: {
    pool: 'forks',
    // Most tests wait more than they compute.
    maxWorkers: availableParallelism() + 2,
    execArgv: ['--conditions=@bureau/source'],
    // Limits end what hangs: a machine at a third of its speed must not come near them.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // What is waited for comes in milliseconds, or in seconds on a machine that others use too. Tests have no shorter limits of their own.
    expect: { poll: { timeout: 30_000 } },
    // On CI the totals are also written down; .ci/run says where, and prints them as its last line.
    reporters: process.env['CI'] ? ['default', 'json'] : ['default'],
    outputFile: { json: 'coverage/results/latest.json' },
    coverage: { provider: 'v8', include: ['packages/*/src/**/*.ts'] },
    projects: [
      {
        extends: true,
        test: {
          name: 'fast',
          include: everyTest,
          exclude: [...configDefaults.exclude, ...setApart, ...withOthers],
          // The files of a worker share their modules, which hold no state: loading them anew was half of all the work.
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'others',
          include: withOthers.map((pattern) => pattern.replace(/\*\*$/, '**/*.test.ts')),
          exclude: [...configDefaults.exclude, ...setApart],
          // As above; and the embedded databases of a worker go from test to test.
          isolate: false,
        },
      },
      {
        extends: true,
        // Whole processes and browsers, which keep a core busy each.
        test: {
          name: 'slow',
          include: only('slow'),
          testTimeout: 300_000,
          hookTimeout: 300_000,
          expect: { poll: { timeout: 90_000 } },
          maxWorkers: availableParallelism(),
          // After the fast tests, so that neither makes the other miss its time limit.
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        // They limit the time or the memory that something takes: last and one by one, so that no other test takes either.
        test: {
          name: 'measured',
          include: only('measured'),
          testTimeout: 300_000,
          hookTimeout: 300_000,
          maxWorkers: 1,
          // A host that is shared can hold anything up for a moment: what counts is the best of three.
          retry: 2,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
