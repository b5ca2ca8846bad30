import { Command } from 'commander'
import { withPlatform } from '../with-platform.ts'

/** `bureau rotate-master-key`: wraps all keys of the platform's database with another master key. Prints no key. */
export const rotateMasterKeyCommand = new Command('rotate-master-key')
  .description('Replace the master key of a stopped platform. What it keeps stays readable; repeat it after a failure.')
  .addHelpText(
    'after',
    '\nA key in master.key of the data folder (BUREAU_DATA) is replaced by a new one\n' +
      'there. One in PLATFORM_MASTER_KEY is replaced by PLATFORM_NEW_MASTER_KEY, which\n' +
      'all processes then get as PLATFORM_MASTER_KEY.',
  )
  .action(async () => {
    const { loadPlatformConfig, openDatabase, rotateMasterKey } = await withPlatform(() => import('@bureau/platform'))
    const config = loadPlatformConfig()
    const { wrapped, oldKeyFile } = await rotateMasterKey(config, () =>
      openDatabase(config.databaseUrl, { mustExist: true }),
    )
    console.error(`Wrapped ${wrapped} ${wrapped === 1 ? 'key' : 'keys'} with the new master key.`)
    console.error(
      oldKeyFile === undefined
        ? 'Start every process with it as PLATFORM_MASTER_KEY. Keep the old key for as long as copies made with it.'
        : `The old one is ${oldKeyFile}. Keep it for as long as copies of the database that were made before.`,
    )
  })
