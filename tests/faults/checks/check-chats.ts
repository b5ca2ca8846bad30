import { answerTo } from '../model.ts'
import { eventually, type Scene } from '../plan.ts'
import type { RunRecord } from './run-record.ts'

const MAX_CHATS = 12

/** No chat is stuck: each answers a new message. I11: the images of failed responses are not sent again. */
export async function checkChats(scene: Scene, runs: readonly RunRecord[]): Promise<void> {
  const { tenant, installation, object } = scene
  const consumerId = await tenant.addConsumer()
  const chats = [...new Set(tenant.attempts.map(({ ask }) => ask.chat))].slice(-MAX_CHATS)
  const places = installation.processes.map((_, index) => index)
  await Promise.all(
    chats.map(async (chat, at) => {
      const ask = tenant.ask({ chat, consumerId })
      const attempt = await tenant.sendUntilDecided(ask, places[at % places.length])
      await attempt.over
      const said = attempt.result?.status
      if (said !== 'completed')
        object(`${chat} does not answer: ${attempt.outcome} ${attempt.status} ${attempt.code} ${said}`)
    }),
  )
  await eventually(async () => installation.model.calls.every(({ state }) => state !== 'active'), 10_000)
  checkImages(scene, runs)
  await checkHistories(scene, runs)
}

function checkImages({ tenant, installation, object }: Scene, runs: readonly RunRecord[]): void {
  const statuses = new Map(runs.map(({ usageRequestId, status }) => [usageRequestId, status]))
  const asks = new Map(tenant.attempts.map(({ ask }) => [ask.number, ask]))
  for (const call of installation.model.calls) {
    for (const image of call.images) {
      const ask = asks.get(image)
      if (!ask || image === call.ask) continue
      if (statuses.get(ask.usageRequestId) === 'failed') {
        object(`I11: the model got the image of #${image}, whose response failed, with #${call.ask}`)
      }
    }
  }
}

/** A completed response stands in its chat as it was given, a failed one as failed. */
async function checkHistories({ tenant, object }: Scene, runs: readonly RunRecord[]): Promise<void> {
  const asks = new Map(tenant.attempts.map(({ ask }) => [ask.usageRequestId, ask]))
  const byChat = [...Map.groupBy(runs, ({ chatId }) => chatId)].slice(-MAX_CHATS)
  for (const [chatId, ofChat] of byChat) {
    const messages = await tenant.list(`/v1/chats/${chatId}/messages?order=asc`)
    for (const run of ofChat) {
      const own = messages.filter(({ runId }) => runId === run.runId)
      const number = asks.get(run.usageRequestId ?? '')?.number ?? 0
      if (own.filter(({ role, item }) => role === 'user' && !item.callerAgent).length !== 1)
        object(`I3: ${run.runId} has not one message of a user`)
      const answers = own.filter(({ role }) => role !== 'user')
      const isThere = answers.some(({ item }) => JSON.stringify(item).includes(answerTo(number)))
      if (run.status === 'completed' && !isThere) object(`I3: the answer of ${run.runId} is not in its chat`)
      if (run.status === 'failed' && !answers.every(({ status }) => status === 'failed')) {
        object(`I3: ${run.runId} failed, and its answer is not marked so`)
      }
    }
  }
}
