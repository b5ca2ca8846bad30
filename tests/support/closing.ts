const closing: (() => Promise<unknown>)[] = []

/** Closes something when the test has ended. */
export function closeAfterTest(close: () => Promise<unknown>): void {
  closing.push(close)
}

/** The last first: what was opened later may need what was there before. */
export async function closeEverything(): Promise<void> {
  for (const close of closing.splice(0).toReversed()) await close()
}
