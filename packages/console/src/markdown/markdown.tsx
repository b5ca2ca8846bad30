import type { Token, Tokens } from 'marked'
import { Fragment, memo, type ReactNode, useContext, useRef } from 'react'
import { GrowingBlocks } from './blocks.ts'
import { CodeBlock } from './code-block.tsx'
import { GuideContext } from './guide-context.ts'

type Props = { readonly text: string; readonly streaming?: boolean }

/**
 * What an agent has written, each part in the direction of its language. HTML is shown as text, and the address of a
 * picture in place of the picture: a model could carry data out with both.
 */
export function Markdown({ text, streaming = false }: Props) {
  const blocks = useRef<GrowingBlocks>(null)
  blocks.current ??= new GrowingBlocks()
  const tokens = blocks.current.read(text, !streaming)
  const depths = depthsOf(tokens)
  return (
    <div className="prose">
      {tokens.map((token, at) => (
        // Blocks are only ever added at the end.
        <Block key={at} token={token} depth={depths[at]} settled={!streaming || at < tokens.length - 1} />
      ))}
    </div>
  )
}

/** Of headings, without the levels that models leave out: a screen reader would report a part that is missing. */
function depthsOf(tokens: readonly Token[]): (number | undefined)[] {
  const above: number[] = []
  return tokens.map((token) => {
    if (token.type !== 'heading') return undefined
    const { depth } = token as Tokens.Heading
    while (above.length > 0 && above.at(-1)! >= depth) above.pop()
    return above.push(depth)
  })
}

type BlockProps = {
  readonly token: Token
  /** Of a heading. */
  readonly depth?: number | undefined
  readonly settled: boolean
}

const Block = memo(function Block({ token, depth, settled }: BlockProps): ReactNode {
  switch (token.type) {
    case 'heading':
      return <Heading heading={token as Tokens.Heading} depth={depth} />
    case 'paragraph':
      return <p dir="auto">{inline(token)}</p>
    case 'text':
      return 'tokens' in token && token.tokens ? <>{inline(token)}</> : token.raw
    case 'code':
      return (
        <CodeBlock text={(token as Tokens.Code).text} language={(token as Tokens.Code).lang ?? ''} settled={settled} />
      )
    case 'list':
      return <List list={token as Tokens.List} settled={settled} />
    case 'blockquote':
      return <blockquote dir="auto">{children(token, settled)}</blockquote>
    case 'table':
      return <Table table={token as Tokens.Table} />
    case 'hr':
      return <hr />
    case 'checkbox':
      return <Box box={token as Tokens.Checkbox} />
    case 'space':
    case 'def':
      return null
    default:
      return <p className="whitespace-pre-wrap">{token.raw}</p>
  }
})

const children = (token: Token, settled: boolean): ReactNode =>
  ((token as { tokens?: Token[] }).tokens ?? []).map((each, at) => <Block key={at} token={each} settled={settled} />)

/** @param depth - Default, for headings within lists and quotations: 1. */
function Heading({ heading, depth = 1 }: { readonly heading: Tokens.Heading; readonly depth?: number | undefined }) {
  const guide = useContext(GuideContext)
  // The page has headings of its own above these: of a document its title, in a chat one more.
  const Level = `h${guide ? heading.depth : Math.min(6, depth + 2)}` as 'h3'
  return (
    <Level id={guide?.anchorOf(heading.text)} dir="auto">
      {inline(heading)}
    </Level>
  )
}

function List({ list, settled }: { readonly list: Tokens.List; readonly settled: boolean }) {
  const items = list.items.map((item, at) => (
    <li key={at} className={item.task ? 'list-none' : ''}>
      {children(item, settled)}
    </li>
  ))
  if (!list.ordered) return <ul dir="auto">{items}</ul>
  return (
    <ol start={list.start === '' ? 1 : list.start} dir="auto">
      {items}
    </ol>
  )
}

function Table({ table }: { readonly table: Tokens.Table }) {
  return (
    <div className="overflow-x-auto" tabIndex={0} role="region" aria-label="Table">
      <table dir="auto">
        <thead>
          <tr>
            {table.header.map((cell, at) => (
              <th key={at} style={{ textAlign: cell.align ?? 'start' }}>
                {inline(cell)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, column) => (
                <td key={column} style={{ textAlign: cell.align ?? 'start' }}>
                  {inline(cell)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function inline(token: { readonly tokens?: Token[] | undefined }): ReactNode {
  return (token.tokens ?? []).map((each, at) => <Fragment key={at}>{span(each)}</Fragment>)
}

function span(token: Token): ReactNode {
  switch (token.type) {
    case 'strong':
      return <strong>{inline(token)}</strong>
    case 'em':
      return <em>{inline(token)}</em>
    case 'del':
      return <del>{inline(token)}</del>
    case 'codespan':
      return <code>{(token as Tokens.Codespan).text}</code>
    case 'br':
      return <br />
    case 'checkbox':
      return <Box box={token as Tokens.Checkbox} />
    case 'link':
      return <Link link={token as Tokens.Link} />
    case 'image':
      return (
        <code>
          picture: {(token as Tokens.Image).text} {(token as Tokens.Image).href}
        </code>
      )
    case 'escape':
    case 'text':
      return 'tokens' in token && token.tokens ? inline(token) : decoded((token as Tokens.Text).text)
    default:
      return token.raw
  }
}

/** Of a task. */
const Box = ({ box }: { readonly box: Tokens.Checkbox }) => (
  <input type="checkbox" checked={box.checked} readOnly aria-label="done" className="me-1.5" />
)

/** `&lt;` and the other names of characters, which the browser knows. A text area has text in it, whatever is written there. */
const decoded = (text: string): string =>
  text.replaceAll(/&[a-z]\w*;/gi, (name) => {
    const area = document.createElement('textarea')
    area.innerHTML = name
    return area.value
  })

function Link({ link }: { readonly link: Tokens.Link }) {
  const text = inline(link)
  const inside = useContext(GuideContext)?.addressOf(link.href)
  if (inside !== undefined) return <a href={inside}>{text}</a>
  const href = decoded(link.href)
  if (!/^(?:https?:|mailto:)/i.test(href)) return <>{text}</>
  return (
    <a href={href} target="_blank" rel="noreferrer noopener" title={href}>
      {text}
    </a>
  )
}
