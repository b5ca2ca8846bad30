import { existsSync } from 'node:fs'
import type { CopiedFiles } from '@bureau/platform'
import { ServiceError } from '@bureau/protocol'
import { Command } from 'commander'
import { CommandError } from '../command-error.ts'
import { withPlatform } from '../with-platform.ts'

const PROGRESS_MS = 1_000

/** `bureau files copy <from> <to>`: the files of the platform, from a data folder to a bucket or the other way. */
export const filesCommand = new Command('files')
  .description('Copy the files of a platform from its data folder to a bucket, or back.')
  .addCommand(
    new Command('copy')
      .description(
        'Copy uploads and inline images. What is there already is left alone: repeat it as often as you like.',
      )
      .argument('<from>', 'a data folder, or s3://bucket/prefix?region=…&endpoint=…')
      .argument('<to>', 'the same')
      .addHelpText(
        'after',
        '\nCopy while the platform runs, stop it, copy again what has come meanwhile, and start it with FILES_URL.',
      )
      .action(copy),
  )

async function copy(from: string, to: string): Promise<void> {
  const { copyFiles, openFileStores } = await withPlatform(() => import('@bureau/platform'))
  for (const place of [from, to]) {
    const isBucketOrFolder = place.startsWith('s3:') || !/^[a-z][a-z\d+.-]*:\/\//i.test(place)
    if (!isBucketOrFolder) throw new CommandError(`${place} is neither a folder nor the address of a bucket (s3://…).`)
  }
  if (!from.startsWith('s3:') && !existsSync(from)) throw new CommandError(`There is no folder ${from}.`)
  const warn = { warn: () => {} } // What cannot be reached fails at its first file.
  const [source, target] = [await openFileStores(from, warn), await openFileStores(to, warn)]
  let progress: CopiedFiles | undefined
  const timer = setInterval(() => progress && console.error(describe(progress)), PROGRESS_MS)
  try {
    console.error(`${describe(await copyFiles(source, target, (copied) => (progress = copied)))} Done.`)
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const reason = error.cause instanceof Error ? ` ${error.cause.message}` : ''
    throw new CommandError(`${error.message}${reason}\nCopy again to go on with what is missing.`)
  } finally {
    clearInterval(timer)
    source.close()
    target.close()
  }
}

const describe = ({ copied, copiedBytes, kept }: CopiedFiles): string =>
  `${copied} files copied (${(copiedBytes / 2 ** 20).toFixed(1)} MiB), ${kept} were there.`
