import { type messages, type PGlite, protocol, types } from '@electric-sql/pglite'

const { serialize } = protocol

type Parse = (text: string, type: number) => unknown
type Column = { readonly name: string; readonly parse: (text: string) => unknown }

/** A statement that the database has parsed and planned, under a name of ours. */
type Statement = {
  readonly name: string
  readonly parameterTypes: readonly number[]
  readonly columns: readonly Column[]
}

type QueryAnswer = { readonly rows: unknown[]; readonly affectedRows: number }

/** More statements than this are not kept: the one that was not used for the longest time goes. */
const MAX_STATEMENTS = 500

const asIs = (text: string): unknown => text

/** What the driver's own parsers do slowly, or otherwise than the queries expect. */
const PARSERS: Readonly<Record<number, Parse>> = {
  [types.INT8]: Number, // every counter of ours stays below 2^53
  [types.BYTEA]: (text) => new Uint8Array(Buffer.from(text.slice(2), 'hex')),
  [types.TIMESTAMP]: asIs,
  [types.TIMESTAMPTZ]: asIs,
  [types.INTERVAL]: asIs,
  [types.DATE]: asIs,
}

/**
 * The one connection of the embedded database. Queries are taken one after the other, in the order in which they were asked.
 *
 * Every text is parsed and planned once and then kept, and one call into the engine answers a query; the driver's own
 * `query` makes six and plans anew each time. As for drizzle, rows are arrays or objects by `rowMode`.
 */
export class PgliteConnection {
  readonly #pglite: PGlite
  readonly #statements = new Map<string, Statement>()
  #named = 0
  #last: Promise<unknown> = Promise.resolve()

  constructor(pglite: PGlite) {
    this.#pglite = pglite
  }

  query(
    text: string,
    parameters: readonly unknown[] = [],
    { rowMode }: { readonly rowMode?: string } = {},
  ): Promise<QueryAnswer> {
    const answer = this.#last.then(() => this.#query(text, parameters, rowMode))
    this.#last = answer.catch(() => {})
    return answer
  }

  async #query(text: string, parameters: readonly unknown[], rowMode: string | undefined): Promise<QueryAnswer> {
    const statement = await this.#statement(text)
    const values = parameters.map((value, index) => this.#encode(value, statement.parameterTypes[index]))
    const answers = await this.#send(
      serialize.bind({ statement: statement.name, values }),
      serialize.execute(),
      serialize.sync(),
    )
    return readAnswer(answers, statement.columns, rowMode === 'array')
  }

  /** Sends statements without parameters. Answers the command tag of the last. */
  async exec(statements: string): Promise<string> {
    const answers = await this.#send(serialize.query(statements))
    const last = answers.findLast(isCommandComplete)
    return last?.text.split(' ', 1)[0] ?? ''
  }

  async #statement(text: string): Promise<Statement> {
    const known = this.#statements.get(text)
    if (known) {
      this.#statements.delete(text) // the least recently used come first
      this.#statements.set(text, known)
      return known
    }
    const name = `s${++this.#named}`
    const answers = await this.#send(
      serialize.parse({ name, text }),
      serialize.describe({ type: 'S', name }),
      serialize.sync(),
    )
    const parameters = answers.find((answer) => answer.name === 'parameterDescription')
    const row = answers.find((answer) => answer.name === 'rowDescription')
    const statement: Statement = {
      name,
      parameterTypes: (parameters as messages.ParameterDescriptionMessage | undefined)?.dataTypeIDs ?? [],
      columns: ((row as messages.RowDescriptionMessage | undefined)?.fields ?? []).map((field) => this.#column(field)),
    }
    this.#statements.set(text, statement)
    await this.#closeOldest()
    return statement
  }

  async #closeOldest(): Promise<void> {
    const [oldest] = this.#statements
    if (this.#statements.size <= MAX_STATEMENTS || !oldest) return
    const [text, { name }] = oldest
    this.#statements.delete(text)
    await this.#send(serialize.close({ type: 'S', name }), serialize.sync())
  }

  #column({ name, dataTypeID }: messages.Field): Column {
    const parse = (PARSERS[dataTypeID] ?? this.#pglite.parsers[dataTypeID]) as Parse | undefined
    return { name, parse: parse ? (text) => parse(text, dataTypeID) : asIs }
  }

  #encode(value: unknown, type: number | undefined): string | Uint8Array | null {
    if (value === null || value === undefined) return null
    if (typeof value === 'string' || value instanceof Uint8Array) return value
    const serialize = this.#pglite.serializers[type ?? 0]
    return serialize ? serialize(value) : JSON.stringify(value)
  }

  async #send(...parts: Uint8Array[]): Promise<messages.BackendMessage[]> {
    const message = parts.length === 1 ? parts[0]! : Buffer.concat(parts)
    return this.#pglite.execProtocolStream(message, { syncToFs: false })
  }
}

function isCommandComplete(message: messages.BackendMessage): message is messages.CommandCompleteMessage {
  return message.name === 'commandComplete'
}

function readAnswer(
  answers: readonly messages.BackendMessage[],
  columns: readonly Column[],
  inArrays: boolean,
): QueryAnswer {
  const rows: unknown[] = []
  let affectedRows = 0
  for (const answer of answers) {
    if (answer.name === 'dataRow') rows.push(readRow((answer as messages.DataRowMessage).fields, columns, inArrays))
    else if (isCommandComplete(answer)) affectedRows = Number(answer.text.split(' ').at(-1)) || 0
  }
  return { rows, affectedRows }
}

function readRow(fields: readonly (string | null)[], columns: readonly Column[], inArrays: boolean): unknown {
  const values = fields.map((field, index) => (field === null ? null : columns[index]!.parse(field)))
  return inArrays ? values : Object.fromEntries(columns.map(({ name }, index) => [name, values[index]]))
}
