import { expect, test } from 'vitest'
import { SignInFolder } from '../../examples/sign-in-folder.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { Browser } from './support/browser.ts'
import { oauthFrames, startAnotherServer, startOAuthSetUp, untilRedirect } from './support/oauth-set-up.ts'

test('a server takes a registry of its operator: a callback at one process reaches the run of another', async () => {
  const folder = await temporaryFolder()
  const here = await startOAuthSetUp({ oauthRegistry: new SignInFolder(folder) })
  const there = await startAnotherServer(here, { oauthRegistry: new SignInFolder(folder) })
  here.address.forwardTo(there.server.url)
  const stream = await here.run('ada')
  const { state, auth_url: authUrl } = await untilRedirect(stream)

  const answer = await new Browser().signIn(authUrl, 'ada@idp')
  await stream.all()

  expect(await answer.json()).toEqual({ status: 'ok', state, server_name: 'notes' })
  expect(oauthFrames(stream).map(({ status }) => status)).toEqual([undefined, 'pending', 'authorized'])
})
