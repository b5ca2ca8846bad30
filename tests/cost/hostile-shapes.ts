/** JSON values that cost a careless reader much more than their size, by what is special about them. */
export type Shapes = Readonly<Record<string, () => string>>

/** The same values, made once each. */
export function kept(shapes: Shapes): Shapes {
  const values = new Map<string, string>()
  return Object.fromEntries(
    Object.entries(shapes).map(([name, make]) => [
      name,
      () => {
        const value = values.get(name) ?? make()
        values.set(name, value)
        return value
      },
    ]),
  )
}

const list = (entry: string, count: number): string => `[${`${entry},`.repeat(count - 1)}${entry}]`

function object(count: number, member: (index: number) => string): string {
  return `{${Array.from({ length: count }, (_, index) => member(index)).join(',')}}`
}

/**
 * About as much as is read of a body, so that all of it comes to whoever checks the request.
 *
 * @param share - Of 32 MiB, for routes that read less.
 */
export function bigShapes(share = 1): Shapes {
  const some = (count: number): number => Math.ceil(count * share)
  const kinds = (count: number): string =>
    `[${Array.from({ length: count }, (_, index) => `{"n${index % 2_900}":1}`).join(',')}]`
  return {
    'empty objects': () => list('{}', some(240_000)),
    'objects of a wrong kind': () => list('{"id":1}', some(120_000)),
    items: () => list('{"role":"user","content":"x"}', some(100_000)),
    'empty lists': () => list('[]', some(240_000)),
    numbers: () => list('1', some(490_000)),
    texts: () => list('"a"', some(490_000)),
    'many names': () => object(2_900, (index) => `"n${index}":"v"`),
    'many names of objects': () => object(2_900, (index) => `"n${index}":{}`),
    'many kinds of objects': () => kinds(some(120_000)),
    'one name again and again': () => object(some(140_000), () => '"a":1'),
    'long names': () => object(some(30), (index) => `"${index}${'x'.repeat(60_000)}":{}`),
    '50 levels': () => '['.repeat(50) + ']'.repeat(50),
    'a long number': () => '9'.repeat(900),
    'a long text': () => `"${'x'.repeat(some(1_000_000))}"`,
    'a text of escapes': () => `"${'\\u0041'.repeat(some(170_000))}"`,
  }
}

/** Escapes and letters in an order that nobody can guess, as a processor would: the same ones each time. */
function mixed(count: number): string {
  const kinds = ['\\\\', '\\"', 'x', '\\n', '\\u0041']
  let seed = 1
  const some = Array.from({ length: 100_000 }, () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
    return kinds[(seed >>> 16) % kinds.length]!
  })
  return some.join('').repeat(Math.ceil(count / some.length))
}

/** As much as a body may have, and more than is read of it. */
export const HUGE: Shapes = {
  'empty objects': () => list('{}', 10_000_000),
  'empty lists': () => list('[]', 10_000_000),
  numbers: () => list('1', 15_000_000),
  'texts of one letter': () => list('"a"', 7_000_000),
  'different names': () => object(2_000_000, (index) => `"n${index}":1`),
  'one name again and again': () => `{${'"a":1,'.repeat(5_000_000)}"a":1}`,
  'levels that are never closed': () => '['.repeat(30_000_000),
  'levels of objects': () => '{"a":'.repeat(6_000_000),
  'a number': () => '9'.repeat(30_000_000),
  'a name': () => `{"${'x'.repeat(30_000_000)}":1}`,
  'white space': () => `${' '.repeat(30_000_000)}1`,
  commas: () => `[${','.repeat(30_000_000)}`,
  quotes: () => '"'.repeat(30_000_000),
  'a text': () => `[["${'x'.repeat(30_000_000)}"]]`,
  'a text that does not end': () => `"${'\\\\'.repeat(15_000_000)}`,
  'a text of backslashes': () => `[["${'\\\\'.repeat(15_000_000)}"]]`,
  'a text of quotes': () => `[["${'\\"'.repeat(15_000_000)}"]]`,
  'a text of newlines': () => `[["${'\\n'.repeat(15_000_000)}"]]`,
  'a text of letters by number': () => `[["${'\\u0041'.repeat(1_950_000)}"]]`,
  'a text of all kinds of escapes': () => `[["${mixed(11_500_000)}"]]`,
  'a text of as many escapes as are read': () => `[["${mixed(2_400_000)}${'x'.repeat(23_000_000)}"]]`,
  'a text with an escape here and there': () => `[["${'xxxxxxxxxx\\"'.repeat(1_950_000)}"]]`,
}
