import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { greetingServer } from './tool-server.ts'

await greetingServer().connect(new StdioServerTransport())
