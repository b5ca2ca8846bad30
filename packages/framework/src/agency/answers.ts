import type { Agent } from './agent.ts'
import type { Parsed } from './output-format.ts'

/** What an agent answers with, or whoever it hands over to. Anything, where the compiler does not know which agent it is. */
export type AnswerOf<Member> =
  Member extends Agent<infer Name, infer Type, infer Target>
    ? string extends Name
      ? unknown
      : Parsed<Type> | AnswerOf<Target>
    : unknown

type NameOf<Member> = Member extends Agent<infer Name, infer _Type, infer _Target> ? Name : string

/** What each of these agents answers with, by name. */
export type AnswersOf<Member> = {
  readonly [Name in NameOf<Member>]: AnswerOf<Extract<Member, { readonly name: Name }>>
}
