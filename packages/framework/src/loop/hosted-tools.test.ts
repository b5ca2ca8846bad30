import { codeInterpreterTool, fileSearchTool, hostedMcpTool, webSearchTool } from '@openai/agents'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { withCodeFiles, withoutHostedTools } from './hosted-tools.ts'
import { type HostedTool } from '../agency/function-tool.ts'
import { tool } from '../agency/tool.ts'

const own = tool({ name: 'web_search', description: 'My own.', parameters: z.object({}), execute: () => 'mine' })
const server = (serverLabel: string): HostedTool => hostedMcpTool({ serverLabel, serverUrl: 'https://example.com' })

test('every stand-in has a name of its own that providers accept, and function tools stay as they are', () => {
  const tools = [webSearchTool(), own, server('my docs'), server('my.docs'), fileSearchTool('vs_1')]

  const offered = withoutHostedTools(tools)

  expect(offered.map(({ name }) => name)).toEqual([
    'web_search_2',
    'web_search',
    'hosted_mcp_my_docs',
    'hosted_mcp_my_docs_2',
    'file_search',
  ])
  expect(offered.every(({ type }) => type === 'function')).toBe(true)
  expect(offered[1]).toBe(own)
})

test('tools that a vendor’s adapter runs stay', () => {
  const adapted = { type: 'hosted_tool', name: 'x', providerData: { aiSdkProviderTool: { id: 'x.y' } } } as const

  expect(withoutHostedTools([adapted])).toEqual([adapted])
})

test('the definition of an agent is not changed by the files of a request', () => {
  const interpreter = Object.freeze(codeInterpreterTool({ container: { type: 'auto', file_ids: ['file-1'] } }))
  const before = structuredClone(interpreter)

  const [given] = withCodeFiles([interpreter], [{ id: 'file-2', name: 'a.csv' }])

  expect(interpreter).toEqual(before)
  expect(given).toMatchObject({ providerData: { container: { type: 'auto', file_ids: ['file-1', 'file-2'] } } })
})

test('a container that the agent names is replaced for the request', () => {
  const [given] = withCodeFiles([codeInterpreterTool({ container: 'cntr_1' })], [{ id: 'file-2', name: 'a.csv' }])

  expect(given).toMatchObject({ providerData: { container: { type: 'auto', file_ids: ['file-2'] } } })
})
