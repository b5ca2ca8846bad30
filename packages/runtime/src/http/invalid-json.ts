/** A text that is not JSON, and where it stops being so. */
export class InvalidJson extends Error {
  override readonly name: string = 'InvalidJson'
  /** Characters from the start of the text; undefined when the parser does not say. */
  readonly offset: number | undefined

  constructor(message: string, offset?: number) {
    super(message)
    this.offset = offset
  }
}

/** A text that may be JSON, but more of it than is read. */
export class JsonLimitExceeded extends InvalidJson {
  override readonly name = 'JsonLimitExceeded'
  /** Names and indexes on the way to where the limit was passed, the first few of them. */
  readonly path: readonly (string | number)[]

  constructor(message: string, path: readonly (string | number)[]) {
    super(message)
    this.path = path
  }
}
