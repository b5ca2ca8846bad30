import { createElement } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test } from 'vitest'
import { Markdown } from './markdown.tsx'

const levelsOf = (text: string): string[] =>
  [...renderToStaticMarkup(createElement(Markdown, { text })).matchAll(/<(h\d)/g)].map(([, level]) => level!)

test.each([
  ['## One\n\n#### Two\n\n## Three', ['h3', 'h4', 'h3']],
  ['### One\n\n# Two\n\n## Three', ['h3', 'h3', 'h4']],
  ['# 1\n\n## 2\n\n### 3\n\n#### 4\n\n##### 5', ['h3', 'h4', 'h5', 'h6', 'h6']],
  ['> #### Quoted\n\n- ### Listed', ['h3', 'h3']],
])('the headings of an answer leave no level out: %j', (text, levels) => {
  expect(levelsOf(text)).toEqual(levels)
})
