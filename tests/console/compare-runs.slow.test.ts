import { describe, expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'
import { canBrowse, consoleBrowser } from './support/console-page.ts'

describe.skipIf(!canBrowse)('two runs', () => {
  const open = consoleBrowser()

  test('are compared: what differs is marked, and the steps of each open', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Eight.'), text('At eight.')])
    await server.post('/solo/get_response', { message: 'When?' })
    await server.post('/solo/get_response', { message: 'When?' })
    const { page, barriers, complaints } = await open(server.url, { at: '/runs' })

    await page.getByRole('link', { name: 'When?' }).first().click()
    await page.getByLabel('Compare with').selectOption({ index: 1 })
    const facts = page.getByRole('region', { name: 'What differs' })
    await facts.getByRole('row', { name: /^Answer differs At eight\. Eight\./ }).waitFor()
    await page
      .getByRole('button', { name: /gpt-test/ })
      .first()
      .click()
    await page.getByRole('region', { name: 'Step gpt-test' }).waitFor()

    expect(await facts.getByRole('row', { name: /^Message When\? When\?/ }).count()).toBe(1)
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test('of which one is gone say so', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page } = await open(server.url, { at: '/runs/one/compare/two' })

    await page.getByText('This process keeps no run of that id.').waitFor()

    expect(await page.getByRole('button', { name: 'Try again' }).count()).toBe(1)
  })
})
