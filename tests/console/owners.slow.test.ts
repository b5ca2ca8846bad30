import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Served, startPlatform } from '../platform/support/test-platform.ts'
import { canBrowse, consoleBrowser } from './support/console-page.ts'

const OPERATOR_KEY = 'the key of the operator, which is long enough'

describe.skipIf(!canBrowse)('the page of the owners', () => {
  const open = consoleBrowser()
  let platform: Served
  beforeAll(async () => {
    platform = await startPlatform('pglite', { config: { operatorKey: OPERATOR_KEY } })
  })
  afterAll(() => platform.close())
  const statusWith = async (token: string): Promise<number> =>
    (await fetch(`${platform.url}/v1/agencies`, { headers: { authorization: `Bearer ${token}` } })).status
  const pick = async (page: Page, owner: string, item: string): Promise<void> => {
    await page.getByRole('button', { name: `More about ${owner}` }).click()
    await page.getByRole('menuitem', { name: item }).click()
  }

  test('is for the operator: others are told what to sign in with, and it is found in the settings', async () => {
    const { key } = await platform.addTenant('Somebody')
    const { page, barriers } = await open(platform.url, { signedIn: { platform: key.token }, at: '/settings' })
    expect(await page.getByRole('navigation').getByRole('link', { name: 'Owners' }).count()).toBe(0)

    await page.getByRole('link', { name: 'Owners' }).click()
    await page.getByLabel('Operator key').fill(key.token)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').waitFor()
    expect(await barriers()).toEqual([])
    await page.getByLabel('Operator key').fill(OPERATOR_KEY)
    await page.getByRole('button', { name: 'Sign in' }).click()

    await page.getByRole('button', { name: 'Somebody', exact: true }).waitFor()
    await page.getByRole('navigation').getByRole('link', { name: 'Owners' }).waitFor()
  })

  test('makes an owner and its keys, disables it, enables it and revokes its key', async () => {
    const { page, barriers, complaints } = await open(platform.url, {
      signedIn: { operator: OPERATOR_KEY },
      at: '/owners',
    })
    page.on('dialog', (dialog) => void dialog.accept())

    await page.getByRole('button', { name: 'New owner' }).click()
    await page.getByLabel('Name').fill('Acme')
    await page.getByRole('button', { name: 'Make the owner' }).click()
    await page.getByRole('dialog', { name: 'API keys of Acme' }).getByText('No keys').waitFor()
    await page.getByRole('button', { name: 'New key' }).click()
    await page.getByLabel('Name').fill('Back end')
    await page.getByRole('button', { name: 'Make the key' }).click()
    const token = await page.getByRole('dialog', { name: 'Key Back end' }).getByRole('code').innerText()
    expect(await statusWith(token)).toBe(200)
    expect(await barriers()).toEqual([])
    await page.getByRole('dialog', { name: 'Key Back end' }).getByRole('button', { name: 'Close' }).click()
    await page.getByRole('dialog', { name: 'API keys of Acme' }).getByText('Back end').waitFor()
    expect(await page.getByText(token).count()).toBe(0)
    await page.getByRole('button', { name: 'Close' }).click()

    await pick(page, 'Acme', 'Disable it')
    await page.getByRole('row', { name: /Acme/ }).getByText('disabled').waitFor()
    await expect.poll(() => statusWith(token)).toBe(401)
    await pick(page, 'Acme', 'Enable it')
    await page.getByRole('row', { name: /Acme/ }).getByText('active').waitFor()
    await expect.poll(() => statusWith(token)).toBe(200)

    await page.getByRole('button', { name: 'Acme', exact: true }).click()
    await page.getByRole('button', { name: 'Revoke' }).click()
    await page.getByRole('dialog', { name: 'API keys of Acme' }).getByText('revoked').waitFor()
    await expect.poll(() => statusWith(token)).toBe(401)
    expect(complaints).toEqual([])
  })
})
