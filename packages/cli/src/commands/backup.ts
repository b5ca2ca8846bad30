import { ConfigError } from '@bureau/protocol'
import { Command } from 'commander'
import { CommandError } from '../command-error.ts'
import { withPlatform } from '../with-platform.ts'

/** `bureau backup <file>`: copies the embedded database. The platform must be stopped: it makes copies of its own. */
export const backupCommand = new Command('backup')
  .description('Copy the embedded database to one file. A running platform keeps hourly copies in its data folder.')
  .argument('<file>', 'the file to write')
  .addHelpText(
    'after',
    '\nThe copy holds the database alone: keep master.key, mounts and blobs of the data folder too.',
  )
  .action(async (file: string) => {
    const platform = await withPlatform(() => import('@bureau/platform'))
    const { databaseUrl } = platform.loadPlatformConfig()
    const db = await platform.openDatabase(databaseUrl, { mustExist: true })
    try {
      await platform.backupDatabase(db, file).catch((cause: Error) => {
        if (cause instanceof ConfigError) throw cause
        throw new CommandError(`The copy cannot be written to ${file}: ${cause.message}`, { cause })
      })
    } finally {
      await db.close()
    }
    console.error(
      `Wrote ${file}. It holds the database alone: keep the master key and the files (mounts and blobs) too.`,
    )
  })

/** `bureau restore <file>`: fills an empty data folder from a copy. */
export const restoreCommand = new Command('restore')
  .description('Fill an empty data folder (BUREAU_DATA) from a copy.')
  .argument('<file>', 'a file that "bureau backup" or a running platform wrote')
  .action(async (file: string) => {
    const { loadPlatformConfig, restoreDatabase } = await withPlatform(() => import('@bureau/platform'))
    const { dataFolder } = loadPlatformConfig()
    await restoreDatabase(file, dataFolder)
    console.error(`Restored ${file} into ${dataFolder}.`)
  })
