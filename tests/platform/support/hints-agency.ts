import { Agency, Agent, MCPServerStreamableHttp } from '@bureau/framework'

/** Two tool servers that say the same of their tools, of which one is believed. Their address is in `TOOLS_URL`. */
const url = process.env['TOOLS_URL'] ?? ''

export const shop = new Agency({
  name: 'Shop',
  entryPoint: new Agent({
    name: 'CEO',
    instructions: 'Help.',
    model: 'gpt-test',
    mcpServers: [
      new MCPServerStreamableHttp({ name: 'own', url, trusted: true }),
      new MCPServerStreamableHttp({ name: 'other', url }),
    ],
    mcpConfig: { includeServerInToolNames: true },
  }),
})
