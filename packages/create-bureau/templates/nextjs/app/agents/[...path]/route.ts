import { createHandler } from '@bureau/server'
import { support } from '../../../agency.ts'

const handler = createHandler({ agencies: { support }, basePath: '/agents' })

export { handler as DELETE, handler as GET, handler as OPTIONS, handler as POST }
