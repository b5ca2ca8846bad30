export type Present<Value> = { [Key in keyof Value]?: Exclude<Value[Key], undefined> }

/** The members that have a value. */
export function present<Value extends object>(value: Value): Present<Value> {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Present<Value>
}
