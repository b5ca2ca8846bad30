import { queryOptions } from '@tanstack/react-query'
import { send } from '../server/request.ts'

/** The page that names all others. */
export const LIST = 'README.md'

/** A page of the documents that the server carries; they are of its own version. */
export const guideQuery = (name: string) =>
  queryOptions({
    queryKey: ['guide', name],
    queryFn: async () => (await send('server', `guide/${name.split('/').map(encodeURIComponent).join('/')}`)).text(),
    staleTime: Infinity,
    retry: false,
  })
