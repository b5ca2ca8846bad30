import { describe, expect, test } from 'vitest'
import { ListText } from './list-text.ts'

/** An item that counts how often it is written. */
function counted(name: string): { readonly name: string; written: number; toJSON(): object } {
  return {
    name,
    written: 0,
    toJSON() {
      this.written++
      return { name }
    },
  }
}

describe('the text of a list that grows', () => {
  test('is that of the whole list, and each item is written once', () => {
    const [a, b, c] = [counted('a'), counted('b'), counted('c')]
    const list = new ListText<ReturnType<typeof counted>>((items) => items)

    const texts = [list.write([]), list.write([a]), list.write([a]), list.write([a, b, c])]

    expect(texts).toEqual(['', '{"name":"a"}', '{"name":"a"}', '{"name":"a"},{"name":"b"},{"name":"c"}'])
    expect([a, b, c].map(({ written }) => written)).toEqual([1, 1, 1])
  })

  test('is written anew where the list does not go on from the one before', () => {
    const [a, b, c] = [counted('a'), counted('b'), counted('c')]
    const list = new ListText<ReturnType<typeof counted>>((items) => items)

    list.write([a, b])

    expect(list.write([a, c])).toBe('{"name":"a"},{"name":"c"}')
    expect(list.write([a])).toBe('{"name":"a"}')
  })

  test('leaves out what is not sent', () => {
    const list = new ListText<{ readonly n: number }>((items) => items.filter(({ n }) => n % 2 === 0))
    const [one, two, three, four] = [{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }]

    expect(list.write([one])).toBe('')
    expect(list.write([one, two])).toBe('{"n":2}')
    expect(list.write([one, two, three])).toBe('{"n":2}')
    expect(list.write([one, two, three, four])).toBe('{"n":2},{"n":4}')
  })

  test('is not kept when it is very long', () => {
    const [picture, word] = [counted('p'.repeat(2_000_000)), counted('word')]
    const list = new ListText<ReturnType<typeof counted>>((items) => items)

    list.write([picture])

    expect(list.write([picture, word])).toBe(`{"name":"${picture.name}"},{"name":"word"}`)
    expect(picture.written).toBe(2)
  })
})
