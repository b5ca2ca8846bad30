import { createHandler } from '@bureau/server'
import { support } from '../../../agency.ts'

const handler = createHandler({
  agencies: { support },
  basePath: '/agents',
  // Without it, only pages of this machine are answered.
  serverUrl: process.env.SERVER_URL || undefined,
})

export { handler as DELETE, handler as GET, handler as OPTIONS, handler as POST }
