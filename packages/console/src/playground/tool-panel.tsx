import type { RunToolAnswer } from '@bureau/protocol'
import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { ToolCall } from '../parts/tool-card.tsx'
import { agentsOf, metadataQuery, useServerRoutes } from '../server/queries.ts'
import { ask } from '../server/request.ts'
import { Button } from '../ui/button.tsx'
import { Select } from '../ui/field.tsx'
import { Form } from '../ui/form.tsx'
import { duration, parsed } from '../ui/format.ts'
import { JsonBlock } from '../ui/json-view.tsx'
import { Empty, Failure, Loading } from '../ui/page.tsx'
import { type Members, SchemaForm, startingMembers } from '../ui/schema-form.tsx'

type Props = {
  readonly agency: string
  /** What goes with every message of the chat, and with the call. */
  readonly context: Members | undefined
  /** The call that is to be made again. */
  readonly again: ToolCall | undefined
}

/** One tool of an agent by itself, with arguments from a form. */
export function ToolPanel({ agency, context, again }: Props) {
  const { data: routes } = useServerRoutes()
  const { data: metadata, error } = useQuery(metadataQuery(agency))
  const tools = agentsOf(metadata).flatMap(({ id, data }) =>
    data.tools.flatMap((tool) => (tool.inputSchema ? [{ agent: id, key: `${id} ${tool.name}`, ...tool }] : [])),
  )
  const [picked, pick] = useState(again ? `${again.agent} ${again.name}` : undefined)
  const tool = tools.find(({ key }) => key === picked) ?? tools[0]
  if (routes && !routes.paths.includes('/console/tools')) {
    return (
      <Empty icon="tool" title="This server carries out no single tools">
        In production it does only when it keeps runs: with the option <code>keepRecentRuns</code>, or{' '}
        <code>BUREAU_KEEP_RECENT_RUNS=true</code>.
      </Empty>
    )
  }
  if (error) return <Failure error={error} />
  if (!metadata) return <Loading />
  if (!tool) return <Empty icon="tool" title="The agents of this agency have no tools of their own." />
  return (
    <div className="flex h-full flex-col gap-4 overflow-y-auto p-4">
      <Select
        label="Tool"
        value={tool.key}
        choices={tools.map(({ key, agent, name }) => ({ value: key, label: `${name} (${agent})` }))}
        onPick={pick}
      />
      <p className="text-[13px] text-soft">{tool.description}</p>
      <ToolForm
        key={tool.key}
        call={{ agency, agent: tool.agent, tool: tool.name, user_context: context }}
        schema={tool.inputSchema ?? {}}
        given={tool.key === `${again?.agent} ${again?.name}` ? again?.input : undefined}
      />
    </div>
  )
}

type FormProps = {
  readonly call: {
    readonly agency: string
    readonly agent: string
    readonly tool: string
    readonly user_context?: unknown
  }
  readonly schema: object
  readonly given: unknown
}

function ToolForm({ call, schema, given }: FormProps) {
  const [values, setValues] = useState<Members>(() => startingMembers(schema, membersOf(given)))
  const run = useMutation({
    mutationFn: () =>
      ask<RunToolAnswer>('server', 'console/tools', { method: 'POST', body: { ...call, arguments: values } }),
  })
  return (
    <Form
      onSubmit={() => run.mutate()}
      refusal={run.error}
      buttons={
        <>
          <Button look="primary" icon="tool" type="submit" disabled={run.isPending}>
            Run it
          </Button>
          <p className="text-xs text-soft">It is carried out for real, outside any run; no approval is asked for.</p>
          {run.data && <Outcome answer={run.data} />}
        </>
      }
    >
      <SchemaForm schema={schema} value={values} onChange={setValues} />
    </Form>
  )
}

function Outcome({ answer: { output, failure, duration_ms: ms } }: { readonly answer: RunToolAnswer }) {
  return (
    <div role="status">
      {failure === null ? (
        <JsonBlock label="Output" value={typeof output === 'string' ? parsed(output) : output} />
      ) : (
        <JsonBlock label="Failure" value={failure} tone="bad" />
      )}
      <p className="mt-1 text-xs text-soft">Took {duration(ms)}.</p>
    </div>
  )
}

function membersOf(given: unknown): Members {
  const value = typeof given === 'string' ? parsed(given) : given
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : {}
}
