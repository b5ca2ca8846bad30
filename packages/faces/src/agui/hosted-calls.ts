import { createHash } from 'node:crypto'
import { fieldsOf, type WireItem } from '@bureau/protocol'
import { jsonOrText } from '../answer.ts'

/** Tools that the model provider runs itself, by the names that AG-UI clients know them by. */
const HOSTED_NAMES: ReadonlyMap<string | undefined, string> = new Map([
  ['file_search_call', 'FileSearchTool'],
  ['code_interpreter_call', 'CodeInterpreterTool'],
])

/** The tool name of an item that AG-UI shows as a tool call; undefined for every other item. */
export function toolNameOf(item: WireItem): string | undefined {
  if (item.type === 'function_call') return typeof item['name'] === 'string' ? item['name'] : undefined
  return HOSTED_NAMES.get(item.type)
}

export function isHostedTool(name: string): boolean {
  return [...HOSTED_NAMES.values()].includes(name)
}

/** What a finished call holds, as the argument text of its message: enough to make the call again from it. */
export function argumentsOf(item: WireItem): string {
  switch (item.type) {
    case 'file_search_call':
      return JSON.stringify({ queries: item['queries'] ?? [], results: item['results'] ?? null })
    case 'code_interpreter_call': {
      const { code = '', container_id = null, outputs = null } = item
      return JSON.stringify({ code, container_id, outputs })
    }
    default:
      return typeof item['arguments'] === 'string' ? item['arguments'] : ''
  }
}

/** What a hosted call produced, as text: a client must see that the call is answered. */
export function hostedResult(item: WireItem): string {
  if (item.type === 'file_search_call') return item['results'] ? JSON.stringify(item['results']) : ''
  const outputs: readonly unknown[] = Array.isArray(item['outputs']) ? item['outputs'] : []
  const texts = outputs.map(fieldsOf).map(({ logs, url }) => logs ?? url)
  return texts.filter((text) => typeof text === 'string').join('\n')
}

/**
 * A hosted call of an earlier turn as the item it was; undefined where too little of it is left.
 *
 * Its id is made anew from the old one: with the id that it issued, the provider would also demand the reasoning
 * that came before the call, which an AG-UI history does not hold.
 */
export function hostedItem(
  name: string,
  call: { readonly id: string; readonly arguments: string },
): WireItem | undefined {
  const { queries, results, code, container_id, outputs } = fieldsOf(jsonOrText(call.arguments))
  const idPart = createHash('sha256').update(call.id).digest('hex').slice(0, 48)
  if (name === HOSTED_NAMES.get('file_search_call')) {
    const found = Array.isArray(results) ? { results } : {}
    return { type: 'file_search_call', id: `fs_${idPart}`, queries: queries ?? [], status: 'completed', ...found }
  }
  if (typeof container_id !== 'string') return undefined
  const item = { type: 'code_interpreter_call', id: `ci_${idPart}`, container_id, code: code ?? '' }
  return { ...item, outputs: Array.isArray(outputs) ? outputs : [], status: 'completed' }
}
