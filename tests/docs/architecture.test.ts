import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { folderGraph, readSources } from '../../scripts/import-graph.ts'
import { ROOT } from './page.ts'

const page = readFileSync(path.join(ROOT, 'ARCHITECTURE.md'), 'utf8')
const [, table = ''] = /\| Package \| Order of its folders \|\n([\s\S]*?)\n\n/.exec(page) ?? []
const graph = folderGraph(readSources(ROOT))

test.each([...table.matchAll(/^\| (\w+) \| (.*) \|$/gm)].map(([, name, order]) => [name!, order!]))(
  'the folders of %s import those further right in its row alone',
  (name, order) => {
    const levels = order.split(' → ').map((level) => [...level.matchAll(/`([\w-]+)`/g)].map(([, folder]) => folder!))
    const levelOf = (folder: string): number => levels.findIndex((level) => level.includes(path.basename(folder)))
    const ofPackage = [...graph].filter(([from]) => from.startsWith(`packages/${name}/src/`))
    expect(ofPackage).not.toEqual([])
    for (const [from, targets] of ofPackage) {
      const own = [...targets].filter((to) => path.dirname(to) === path.dirname(from))
      const wrong = own.filter((to) => levelOf(from) < 0 || levelOf(from) >= levelOf(to))
      expect({ from, wrong }).toEqual({ from, wrong: [] })
    }
  },
)
