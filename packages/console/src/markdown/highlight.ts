import { createHighlighterCore, type HighlighterCore } from 'shiki/core'
import { createJavaScriptRegexEngine } from 'shiki/engine/javascript'
import bash from 'shiki/langs/bash.mjs'
import json from 'shiki/langs/json.mjs'
import python from 'shiki/langs/python.mjs'
import sql from 'shiki/langs/sql.mjs'
import typescript from 'shiki/langs/typescript.mjs'
import yaml from 'shiki/langs/yaml.mjs'
import dark from 'shiki/themes/github-dark-default.mjs'
import light from 'shiki/themes/github-light-high-contrast.mjs'

/** This module is a worker: grammars take a tenth of a second to load, in which the page would not move. */
addEventListener('message', ({ data, ports: [answer] }: MessageEvent<CodeToColour>) => {
  void highlight(data).then((lines) => answer?.postMessage(lines))
})

export type ColouredLine = readonly { readonly content: string; readonly color: string }[]

/** What a page asks this worker. */
export type CodeToColour = { readonly text: string; readonly language: string }

/** Longer code stays in one colour: nobody reads it here, and so many coloured words would hold up the page. */
const MAX_LENGTH = 20_000

let opening: Promise<HighlighterCore> | undefined

/** Undefined: the language is not known. */
async function highlight({ text, language }: CodeToColour): Promise<readonly ColouredLine[] | undefined> {
  if (text.length > MAX_LENGTH) return undefined
  opening ??= createHighlighterCore({
    themes: [light, dark],
    langs: [bash, json, python, sql, typescript, yaml],
    langAlias: {
      js: 'typescript',
      javascript: 'typescript',
      jsx: 'typescript',
      tsx: 'typescript',
      sh: 'bash',
      jsonc: 'json',
    },
    engine: createJavaScriptRegexEngine(),
  })
  const highlighter = await opening
  const name = highlighter.resolveLangAlias(language.toLowerCase())
  if (!highlighter.getLoadedLanguages().includes(name)) return undefined
  const { tokens } = highlighter.codeToTokens(text, {
    lang: name,
    themes: { light: 'github-light-high-contrast', dark: 'github-dark-default' },
  })
  return tokens.map((line) => line.map(({ content, htmlStyle }) => ({ content, color: colorOf(htmlStyle) })))
}

function colorOf(style: Record<string, string> | undefined): string {
  return `light-dark(${style?.['color'] ?? 'inherit'}, ${style?.['--shiki-dark'] ?? 'inherit'})`
}
