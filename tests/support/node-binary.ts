import path from 'node:path'
import { installOnce } from './install-once.ts'

/** The oldest Node that the servers say they need, and the one that images are made of. */
export const OLDEST = '24.11.0'
export const LONG_TERM = '26.10.0'

/** @returns The binary of this version of Node. */
export async function nodeBinary(version: string): Promise<string> {
  const name = `node-${process.platform}-${process.arch}`
  const folder = await installOnce(`${name}-${version}`, [`${name}@${version}`])
  return path.join(folder, 'node_modules', name, 'bin/node')
}
