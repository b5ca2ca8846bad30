#!/usr/bin/env node
// Plain JavaScript: published packages hold no sources, and the repository has nothing built.
import { existsSync } from 'node:fs'

const source = new URL('../src/main.ts', import.meta.url)
await import(existsSync(source) ? source.href : new URL('../dist/main.js', import.meta.url).href)
